// Signing in with an issuer of OpenID Connect: the authorization code flow with PKCE, for a client without a secret.

import { token } from "./api.js";

const KEPT = "evertally-sign-in";

/** The issuer where people sign in, and the id of this page there; null if there is none. */
export const issuer = async () => (await fetch("/assets/sign-in.json", { credentials: "omit" })).json();

const base64url = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));
const address = () => `${location.origin}/`;

async function discover({ issuer }) {
  const response = await fetch(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`, { credentials: "omit" });
  if (!response.ok) throw new Error(`The issuer answers with status ${response.status}.`);
  const found = await response.json();
  if (found.issuer !== issuer) throw new Error("The issuer describes itself with another address.");
  return found;
}

/** Sends the browser to the issuer. */
export async function begin(own) {
  if (!crypto.subtle) throw new Error("Signing in with an issuer needs https.");
  const { authorization_endpoint } = await discover(own);
  const kept = { state: random(), nonce: random(), verifier: random() };
  sessionStorage.setItem(KEPT, JSON.stringify(kept));
  const challenge = base64url(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(kept.verifier)));
  const url = new URL(authorization_endpoint);
  for (const [name, value] of Object.entries({
    response_type: "code",
    client_id: own.client_id,
    redirect_uri: address(),
    scope: own.scopes,
    state: kept.state,
    nonce: kept.nonce,
    code_challenge: challenge,
    code_challenge_method: "S256",
  })) url.searchParams.set(name, value);
  location.assign(url);
}

/** The issuer's answer in the address, which is removed from it; null if there is none. */
export function takeAnswer() {
  const answer = new URLSearchParams(location.search);
  if (!answer.has("state") || !(answer.has("code") || answer.has("error"))) return null;
  history.replaceState(null, "", `/${location.hash}`);
  return answer;
}

/** Exchanges the answer of the issuer for a token, which stays in this tab. */
export async function finish(answer) {
  const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  sessionStorage.removeItem(KEPT);
  if (!kept || answer.get("state") !== kept.state) throw new Error("This sign-in was not begun in this tab.");
  if (answer.has("error")) throw new Error(`The issuer refused the sign-in: ${answer.get("error_description") ?? answer.get("error")}.`);
  const own = await issuer();
  if (!own) throw new Error("This service has no issuer any more.");
  const { token_endpoint } = await discover(own);
  const response = await fetch(token_endpoint, {
    method: "POST",
    credentials: "omit",
    body: new URLSearchParams({
      grant_type: "authorization_code",
      code: answer.get("code"),
      redirect_uri: address(),
      client_id: own.client_id,
      code_verifier: kept.verifier,
    }),
  });
  const { id_token } = response.ok ? await response.json() : {};
  if (!id_token) throw new Error(`The issuer returned no ID token (status ${response.status}).`);
  const [, claims] = id_token.split(".");
  const bytes = Uint8Array.from(atob(claims.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  if (JSON.parse(new TextDecoder().decode(bytes)).nonce !== kept.nonce) throw new Error("The token belongs to another sign-in.");
  token.set(id_token);
}
