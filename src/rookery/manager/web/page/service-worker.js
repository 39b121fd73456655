/**
 * Shows notifications, and a notice if the page is opened while the manager does not answer. It
 * stores nothing: all code and data come from the manager.
 */
const PATIENCE = 4_000;
const RECENT = 10_000;
const NOT_RUNNING = notice(
  "The manager is not running",
  "<p>Run this in a terminal; this page then opens by itself:</p><pre>rookery manager --no-open</pre>",
);
const NOT_RESPONDING = notice(
  "The manager does not respond",
  "<p>This page opens by itself when it responds. If it does not, end it and run:</p><pre>rookery manager</pre>",
);
const HEADERS = {
  "Content-Type": "text/html; charset=utf-8",
  "Content-Security-Policy": "default-src 'none'; script-src 'nonce-fixed'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
};

addEventListener("install", () => skipWaiting());

addEventListener("activate", (event) => event.waitUntil(clients.claim()));

addEventListener("fetch", (event) => {
  if (event.request.mode !== "navigate") return;
  const answer = fetch(event.request).catch(() => noticed(NOT_RUNNING));
  const late = new Promise((resolve) => setTimeout(() => resolve(noticed(NOT_RESPONDING)), PATIENCE));
  event.respondWith(Promise.race([answer, late]));
});

addEventListener("push", (event) => event.waitUntil(wake()));

addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(show(event.notification.data));
});

/** A push says only that a session needs the user. A page that is open has said more. */
async function wake() {
  const open = await clients.matchAll({ type: "window" });
  const shown = await registration.getNotifications();
  const known = shown.some((each) => Date.now() - each.timestamp < RECENT);
  if (known || open.some((each) => each.visibilityState === "visible")) return;
  const about = { body: "Open the inbox to see what it asks.", tag: "waiting", data: "/#/inbox" };
  await registration.showNotification("A session needs you", about);
}

function noticed(text) {
  return new Response(text, { headers: HEADERS });
}

function notice(title, text) {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>rookery</title>
<h1>${title}</h1>
${text}
<p>Your sessions keep running.</p>
<script nonce="fixed">setTimeout(() => location.reload(), 3000)</script>
</html>`;
}

/** Shows a place of the page, in its window if one is open. */
async function show(place) {
  const url = new URL(place, location.origin);
  const open = await clients.matchAll({ type: "window" });
  const found = open.find((each) => new URL(each.url).pathname === url.pathname);
  if (!found) return clients.openWindow(url.href);
  found.postMessage({ place: url.hash });
  return found.focus();
}
