// Tests of the page in a browser, against the demonstration: what people see, and what they must not see.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const pictures = process.env.PICTURES;
let service, url, token, browser;
const wrong = [];

before(async () => {
  service = spawn(process.env.EVERTALLY_BIN, ["serve", "--demo", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  for await (const line of createInterface({ input: service.stderr })) {
    url ??= /^open: (http\S+)/.exec(line)?.[1];
    token ??= /(evt_\S+)/.exec(line)?.[1];
    if (url && token) break;
  }
  service.stderr.resume();
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
});

after(async () => {
  await browser?.close();
  service?.kill("SIGKILL");
});

/** A page that records its errors. */
async function open(path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && !/401/.test(message.text()) && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("request", (request) => {
    const is = new URL(request.url());
    if (is.protocol !== "data:" && is.origin !== url) wrong.push(`the page sent a request to another host: ${is}`);
  });
  await page.goto(`${url}/${path}`);
  return page;
}

async function picture(page, name) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
}

const published = async (page) => /through ([-0-9: ]+) \(/.exec(await page.locator(".note").first().textContent())?.[1];
const shown = (page) => page.waitForSelector(".chart canvas");

test("streams are listed, and lead to their charts", async () => {
  const page = await open("");
  await page.getByRole("link", { name: "Flights from New York in 2013" }).click();
  await shown(page);
  assert.equal(await page.title(), "Flights from New York in 2013 · evertally");
  assert.match(await page.locator(".promise").textContent(), /differentially private with respect to one aircraft/);
  await picture(page, "stream");
});

test("what is published appears without a new visit", async () => {
  const page = await open("#/stream/flights");
  await shown(page);
  const first = await published(page);
  await page.waitForFunction((first) => {
    const now = /through ([-0-9: ]+) \(/.exec(document.querySelector(".note").textContent)?.[1];
    return now && now > first;
  }, first ?? "");
  const values = await page.locator("tbody tr").first().locator("td").allTextContents();
  assert.ok(values.length === 4 && values.every((value) => /^-?[\d,.]+$/.test(value)), values.join(" "));
});

test("groups and ranges can be chosen, and are in the address", async () => {
  const page = await open("#/stream/flights");
  await shown(page);
  await page.getByRole("button", { name: "JFK" }).click();
  assert.equal(await page.getByRole("button", { name: "JFK" }).getAttribute("aria-pressed"), "false");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 2);
  await page.getByRole("button", { name: "Day" }).click();
  assert.match(page.url(), /range=Day&group=EWR&group=LGA/);
  const again = await open(new URL(page.url()).hash);
  await shown(again);
  await again.waitForFunction(() => document.querySelectorAll("tbody tr").length === 2);
  assert.equal(await again.getByRole("button", { name: "Day" }).getAttribute("aria-pressed"), "true");
});

test("plan and report are there, and tables can be kept", async () => {
  const page = await open("#/stream/flights-of-the-week");
  await shown(page);
  await page.getByText("The privacy guarantee, and what a reader may conclude").click();
  await page.getByRole("heading", { name: "What you may not conclude" }).waitFor();
  await page.getByText("The plan: everything that was decided before the first event").click();
  await page.getByText("mechanism = ").waitFor();
  await page.waitForFunction(() => /through/.test(document.querySelector(".note").textContent));
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "CSV" }).click()]);
  assert.equal(download.suggestedFilename(), "flights-of-the-week.csv");
  await picture(page, "promises");
});

test("the chart can be read with keys and without eyes", async () => {
  const page = await open("#/stream/flights");
  await shown(page);
  await page.waitForFunction(() => Number(document.querySelector("tbody td")?.textContent.replace(/,/g, "")) > -1e9);
  await page.locator(".chart").focus();
  await page.keyboard.press("Home");
  await page.waitForFunction(() => /EWR .* JFK .* LGA/.test(document.getElementById("said").textContent));
  assert.match(await page.locator("#said").textContent(), /^2013-01-01 01:00: EWR/);
  assert.match(await page.locator(".chart").getAttribute("aria-label"), /EWR, JFK, LGA, through 2013/);
});

test("a phone shows it without going sideways, and in the dark", async () => {
  const page = await open("#/stream/flights", { viewport: { width: 360, height: 740 }, colorScheme: "dark" });
  await shown(page);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.getByRole("button", { name: "Show light" }).click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
  await picture(page, "phone");
});

test("the operator's view opens to an operator's token alone", async () => {
  const page = await open("#/operator");
  await page.getByLabel("Token of an operator").fill("evt_00000000_wrong");
  await page.keyboard.press("Enter");
  await page.getByText("This token is not valid").waitFor();
  await page.getByLabel("Token of an operator").fill(token);
  await page.keyboard.press("Enter");
  await page.getByText("There are no problems.").waitFor();
  await page.getByLabel("Declaration, as JSON").fill(JSON.stringify({ stream: "visits", start: "2013-06-01", every: "1h", unbounded: true, rho: 0.5 }));
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByAltText("The error over time").waitFor();
  await picture(page, "operator");
  await page.getByLabel("Role").fill("read:*");
  await page.getByRole("button", { name: "Create token" }).click();
  const made = await page.getByText("Shown once, here:").textContent();
  assert.match(made, /evt_[0-9a-f]{8}_/);
  // A token for reading does not open the operator's view.
  const reader = await open("#/operator");
  await reader.getByLabel("Token of an operator").fill(/evt_\S+/.exec(made)[0]);
  await reader.keyboard.press("Enter");
  await reader.getByText("This token does not operate the service.").waitFor();
});

test("nothing went wrong, and nobody else was asked", () => {
  assert.deepEqual(wrong.filter((words) => !/403/.test(words)), []);
});
