// Tests of the page in a browser, against the demonstration: what people see, and what they must not see.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

/** A request of an operator; `to` is another service than the demonstration. */
async function asOperator(method, path, body, to = { url, token }) {
  const response = await fetch(`${to.url}${path}`, {
    method, body: body && JSON.stringify(body),
    headers: { authorization: `Bearer ${to.token}`, ...(body ? { "content-type": "application/json" } : {}) },
  });
  assert.ok(response.ok, `${method} ${path}: ${response.status}`);
  return response.status === 204 ? null : response.json();
}

async function signIn(page, secret) {
  await page.getByLabel("Token").fill(secret);
  await page.keyboard.press("Enter");
}

/** Opens a stream that is not public, on the clock of the demonstration. */
const openHidden = (stream) => asOperator("POST", "/v1/streams", {
  declaration: { stream, start: "2013-12-01", every: "1h", unbounded: true, rho: 0.5 },
});

/** Waits until everything fits the width of the page, tables included: charts are resized a moment later. */
const fits = (page) => page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth
  && [...document.querySelectorAll(".scroll")].every((table) => table.scrollWidth <= table.clientWidth), null, { timeout: 5000 });

async function picture(page, name) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
}

const published = async (page) => /until ([-0-9: ]+) UTC-0[45]:00/.exec(await page.locator(".note").first().textContent())?.[1];
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
    const now = /until ([-0-9: ]+) UTC-0[45]:00/.exec(document.querySelector(".note").textContent)?.[1];
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
  assert.equal(await page.locator(".prose tbody td").first().textContent(), "released", "a table without heads");
  await page.setViewportSize({ width: 360, height: 740 });
  await fits(page);
  await page.getByText("The plan: everything that was decided before the first event").click();
  await page.getByText("mechanism = ").waitFor();
  await page.waitForFunction(() => /published until/.test(document.querySelector(".note").textContent));
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
  assert.match(await page.locator("#said").textContent(), /^2013-01-01 01:00 UTC-05:00: EWR/);
  assert.match(await page.locator(".chart").getAttribute("aria-label"), /EWR, JFK, LGA, until 2013/);
});

test("a phone shows it without going sideways, and in the dark", async () => {
  const page = await open("#/stream/flights", { viewport: { width: 360, height: 740 }, colorScheme: "dark" });
  await shown(page);
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 3);
  await fits(page);
  assert.equal(await page.locator("tbody tr").first().getByRole("cell").count(), 4, "cells keep their roles");
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
  // Opening asks, with the cost.
  await page.getByRole("button", { name: "Open the stream" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("It spends ρ = 0.5 (zCDP) for one event, for good").waitFor();
  await dialog.getByText("It has no source").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await asOperator("GET", "/v1/streams")).streams.some(({ name }) => name === "visits"), false);
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

test("retiring asks, and says that it is final", async () => {
  await openHidden("short");
  const page = await open("#/operator", { viewport: { width: 360, height: 740 } });
  await signIn(page, token);
  const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: "short" }) });
  await row.getByRole("button", { name: "Retire" }).click();
  await page.getByRole("dialog").getByText("The budget that it has spent stays spent").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await asOperator("GET", "/v1/streams/short")).state, "open");
  await fits(page);
  await row.getByRole("button", { name: "Retire" }).click();
  await page.getByRole("button", { name: "Retire for good" }).click();
  await row.getByText("retired").waitFor();
});

test("a token that reads one stream signs in", async () => {
  await openHidden("hidden");
  const { id, token: secret } = await asOperator("POST", "/v1/tokens", { role: "read:hidden", label: "" });
  const stranger = await open("#/stream/hidden");
  await stranger.getByRole("link", { name: "Sign in", exact: true }).last().click();
  await signIn(stranger, "evt_00000000_wrong");
  await stranger.getByText("This token is not valid").waitFor();
  await signIn(stranger, secret);
  await stranger.getByRole("link", { name: "hidden" }).click();
  await stranger.getByText("nothing is published yet").waitFor();
  // It stays signed in when it visits the operator's page, and it is signed out when the token is revoked.
  await stranger.goto(`${url}/#/operator`);
  await stranger.getByText("This token does not operate the service.").waitFor();
  await stranger.goto(`${url}/#/stream/hidden`);
  await stranger.getByText("nothing is published yet").waitFor();
  await asOperator("DELETE", `/v1/tokens/${id}`);
  await stranger.reload();
  await stranger.getByText("The token of this tab has been revoked or has expired.").waitFor();
  assert.equal(await stranger.evaluate(() => sessionStorage.length), 0);
});

test("the last operator's token has no button, and signing out forgets it", async () => {
  const page = await open("#/sign-in");
  await signIn(page, token);
  await page.getByText("the last operator’s, which stays").waitFor();
  const other = await asOperator("POST", "/v1/tokens", { role: "operate", label: "second" });
  await page.reload();
  await page.getByRole("row", { name: "second" }).getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByText("It allows operate, and is labelled “second”").waitFor();
  await page.getByRole("button", { name: "Revoke", exact: true }).last().click();
  await page.getByText("the last operator’s, which stays").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("link", { name: "Sign in", exact: true }).first().waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  assert.ok(other.id);
});

/** Starts another service; the process, and its address for operators. */
async function serve(config) {
  const own = spawn(process.env.EVERTALLY_BIN, ["serve", "--config", config], { stdio: ["ignore", "ignore", "pipe"] });
  let address;
  for await (const line of createInterface({ input: own.stderr })) {
    address = /operating: (http\S+)/.exec(line)?.[1];
    if (address) break;
  }
  own.stderr.resume();
  return [own, address];
}

test("extending asks, with the cost for the source", async () => {
  const folder = mkdtempSync(join(tmpdir(), "evertally-page-"));
  const config = join(folder, "serve.toml");
  const run = (...words) => execFileSync(process.env.EVERTALLY_BIN, words, { cwd: folder, stdio: ["ignore", "pipe", "ignore"] }).toString();
  run("budget", "new", "--name", "shop", "--unit", "person", "--rho", "2", "shop.budget");
  writeFileSync(config, `folder = "data"\nkey = "k.key"\n[private]\nlisten = "127.0.0.1:0"\n[sources]\nshop = "shop.budget"\n`
    + `[[stream]]\nstream = "visits"\nstart = "2024-01-01"\nend = "2024-01-04"\nevery = "1d"\nperson = "customer"\nmax-events = 3\nrho = 0.5\nsource = "shop"\nclosing = "operator"\n`);
  const secret = run("token", "make", "--config", config, "--role", "operate").trim();
  const [own, ownUrl] = await serve(config);
  try {
    const there = { token: secret, url: ownUrl };
    await asOperator("POST", "/v1/streams/visits/close", { through: 3 }, there);
    const page = await (await browser.newContext()).newPage();
    await page.goto(`${there.url}/#/operator`);
    await signIn(page, secret);
    await page.getByRole("button", { name: "Extend" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("It spends its budget again, for anyone with events in both").waitFor();
    await dialog.getByText("ρ = 0.5 of ρ = 2 is spent, and ρ = 1.5 is left now").waitFor();
    await dialog.getByRole("button", { name: "Extend and spend again" }).click();
    await page.getByRole("link", { name: "visits #2" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Extend" }).count(), 0, "a stream is extended once");
    const { sources } = await asOperator("GET", "/v1/sources", undefined, there);
    assert.match(sources[0].left, /^ρ = 1( |$)/);
  } finally {
    own.kill("SIGKILL");
    rmSync(folder, { recursive: true });
  }
});

/** An issuer that signs in everybody without a question; `seen` is what the page sent to it. */
async function issuer(seen) {
  let address;
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const token = (claims) => {
    const signed = `${part({ alg: "ES256", kid: "1" })}.${part(claims)}`;
    return `${signed}.${sign("sha256", Buffer.from(signed), { key: privateKey, dsaEncoding: "ieee-p1363" }).toString("base64url")}`;
  };
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, address);
    const answer = (document) => response.setHeader("access-control-allow-origin", "*").end(JSON.stringify(document));
    if (pathname === "/keys") {
      // Slower than the page: the requests that it sends at once need these keys, too.
      await new Promise((over) => setTimeout(over, 1000));
      answer({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "1" }] });
    } else if (pathname === "/authorize") {
      Object.assign(seen, Object.fromEntries(searchParams));
      response.writeHead(302, { location: `${seen.redirect_uri}?code=abc&state=${seen.forged ?? seen.state}` }).end();
    } else if (pathname === "/token") {
      let body = "";
      for await (const piece of request) body += piece;
      seen.exchange = Object.fromEntries(new URLSearchParams(body));
      const claims = { iss: address, aud: seen.client_id, sub: "ann", nonce: seen.nonce, exp: Date.now() / 1000 + 60, groups: ["ops"] };
      answer({ id_token: token(claims) });
    } else answer({ issuer: address, jwks_uri: `${address}/keys`, authorization_endpoint: `${address}/authorize`, token_endpoint: `${address}/token` });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  address = `http://127.0.0.1:${server.address().port}`;
  return [server, address];
}

test("people sign in at an issuer", async () => {
  const folder = mkdtempSync(join(tmpdir(), "evertally-page-"));
  const [config, seen] = [join(folder, "serve.toml"), {}];
  const [server, address] = await issuer(seen);
  writeFileSync(config, `folder = "data"\nkey = "k.key"\n[private]\nlisten = "127.0.0.1:0"\n[[identity]]\nissuer = "${address}"\n`
    + `audience = "evertally"\nclient-id = "page"\nroles = [{ claim = "groups", value = "ops", role = "operate" }]\n`
    + `[[stream]]\nstream = "visits"\nstart = "2024-01-01"\nevery = "1d"\nunbounded = true\nrho = 0.5\nclosing = "operator"\n`);
  const [own, ownUrl] = await serve(config);
  try {
    const page = await (await browser.newContext()).newPage();
    const refused = [];
    page.on("response", (response) => response.status() >= 400 && refused.push(`${response.status()} ${response.url()}`));
    await page.goto(`${ownUrl}/#/sign-in`);
    await page.getByRole("button", { name: "Sign in with 127.0.0.1" }).click();
    await page.getByRole("link", { name: "Signed in" }).waitFor();
    assert.equal(new URL(page.url()).search, "");
    assert.equal(createHash("sha256").update(seen.exchange.code_verifier).digest("base64url"), seen.code_challenge);
    assert.equal(seen.exchange.code, "abc");
    await page.getByRole("heading", { name: "Streams" }).waitFor();
    await page.getByRole("link", { name: "Operator" }).waitFor();
    await page.goto(`${ownUrl}/#/operator`);
    await page.getByRole("heading", { name: "Operator" }).waitFor();
    await page.getByRole("link", { name: "visits" }).first().waitFor();
    assert.deepEqual(refused, []);
    // An answer that this tab did not ask for.
    seen.forged = "x";
    const other = await (await browser.newContext()).newPage();
    await other.goto(`${ownUrl}/#/sign-in`);
    await other.getByRole("button", { name: "Sign in with 127.0.0.1" }).click();
    await other.getByText("This sign-in was not begun in this tab.").waitFor();
    assert.equal(await other.evaluate(() => sessionStorage.length), 0);
  } finally {
    own.kill("SIGKILL");
    server.close();
    server.closeAllConnections();
    rmSync(folder, { recursive: true });
  }
});

test("a service that answers later is asked again", async () => {
  const page = await (await browser.newContext()).newPage();
  const busy = { status: 503, headers: { "retry-after": "1" }, json: { title: "Busy", detail: "too much work" } };
  await page.route("**/v1/streams", (route) => route.fulfill(busy), { times: 2 }); // the header and the view
  await page.goto(`${url}/#/`);
  await page.getByText("too much work").waitFor();
  await page.getByText("This page asks again every second.").waitFor();
  await page.getByRole("link", { name: "Flights from New York in 2013" }).waitFor();
});

test("nothing went wrong, and nobody else was asked", () => {
  assert.deepEqual(wrong.filter((words) => !/40[34]/.test(words)), []);
});
