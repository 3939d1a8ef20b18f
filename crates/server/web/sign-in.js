// Signing in with a token, and signing out.

import * as api from "./api.js";
import { Problem } from "./api.js";
import { alarm, h, say } from "./dom.js";
import * as identity from "./identity.js";

const WRONG = "This token is not valid: it is wrong or was revoked.";

/** The form for a token of any role, or the way to sign out. `why` is shown above it. */
export function signInView(root, signal, why) {
  const signedIn = api.token.get();
  root.append(h("h1", {}, signedIn ? "Signed in" : "Sign in"), ...[why && alarm(why)].filter(Boolean));
  if (!signedIn) root.append(issuerDoor());
  root.append(signedIn ? signOut() : door("Token", signal, async () => {
    const { streams, operated } = await api.json("/v1/streams", { signal });
    document.dispatchEvent(new Event("signed"));
    say("Signed in");
    location.hash = operated && (await operates(signal)) ? "#/operator" : streams.length === 1 ? `#/stream/${encodeURIComponent(streams[0].name)}` : "#/";
  }));
}

/** A button that signs in with the issuer of this service, if it has one. */
function issuerDoor() {
  const place = h("div");
  identity.issuer().then((issuer) => {
    if (!issuer) return;
    const message = h("div");
    place.append(message, h("p", {}, h("button", { type: "button", id: "issuer", onclick: async () => {
      try {
        await identity.begin(issuer);
      } catch (problem) {
        message.replaceChildren(alarm(problem.message));
      }
    } }, `Sign in with ${new URL(issuer.issuer).host}`)));
  }, () => {}); // the form for a token works all the same
  return place;
}

/** Whether the token of this tab operates the service. */
async function operates(signal) {
  try {
    await api.json("/v1/operator", { signal });
    return true;
  } catch (problem) {
    if (problem instanceof Problem && problem.status === 403) return false;
    throw problem;
  }
}

/** A form for a token, which stays in this tab if `then` succeeds with it. */
export function door(label, signal, then) {
  const field = h("input", { type: "password", id: "token", name: "token", autocomplete: "off", required: true, placeholder: "evt_…" });
  const message = h("div");
  return h("form", { class: "door", onsubmit: async (event) => {
    event.preventDefault();
    const before = api.token.get();
    api.token.set(field.value.trim());
    try {
      await then();
    } catch (problem) {
      if (signal.aborted) return;
      if (before) api.token.set(before);
      else api.token.forget();
      message.replaceChildren(alarm(problem instanceof Problem && problem.status === 401 ? WRONG : problem.message));
    }
  } },
  message,
  h("label", { for: "token" }, label),
  field,
  h("button", { type: "submit" }, "Sign in"),
  h("p", { class: "note" }, "The token is kept in this tab until the tab is closed. The operator creates tokens: ",
    h("code", {}, "read:STREAM"), " shows one stream, ", h("code", {}, "read:*"), " all of them, and ",
    h("code", {}, "operate"), " opens the operator's page."));
}

/** A button that forgets the token of this tab. */
export function signOut() {
  return h("p", {}, h("button", { type: "button", class: "quiet", onclick: () => {
    api.token.forget();
    document.dispatchEvent(new Event("signed"));
    location.hash = "#/";
  } }, "Sign out: forget the token of this tab"));
}
