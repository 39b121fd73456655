// Drives `rookery acp` with the official npm SDK, and prints what it saw as JSON.
// node acp_client.mjs SDK_FOLDER WORKSPACE COMMAND ARGUMENT…
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, cwd, command, ...args] = process.argv.slice(2);
const acp = await import(pathToFileURL(`${sdk}/dist/v1/stable/acp.js`).href);
const child = spawn(command, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => child.on("exit", resolve));
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

const seen = { updates: [], permissions: [], forms: [], written: [], stops: [] };
let wake = () => {};

const client = acp
  .client({ name: "tests" })
  .onRequest("session/request_permission", ({ params }) => {
    seen.permissions.push(params);
    const optionId = params.toolCall.title.includes("forbidden") ? "reject" : "once";
    return { outcome: { outcome: "selected", optionId } };
  })
  .onRequest("elicitation/create", ({ params }) => {
    seen.forms.push(params);
    return { action: "accept", content: { answer: "8080" } };
  })
  .onRequest("fs/read_text_file", async ({ params }) => ({ content: await readFile(params.path, "utf8") }))
  .onRequest("fs/write_text_file", async ({ params }) => {
    seen.written.push(params.path);
    await writeFile(params.path, params.content);
    return {};
  })
  .onNotification("session/update", ({ params }) => {
    seen.updates.push(params.update);
    wake(params.update);
  });

const until = (matches) =>
  new Promise((resolve) => {
    wake = (update) => matches(update) && resolve();
  });

await client.connectWith(stream, async (agent) => {
  seen.initialized = await agent.request("initialize", {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {
      fs: { readTextFile: true, writeTextFile: true },
      session: { notices: {}, compaction: {} },
      elicitation: { form: {} },
      auth: { terminal: true },
    },
  });
  await agent.request("authenticate", { methodId: "key" });
  const opened = await agent.request("session/new", { cwd, mcpServers: [] });
  seen.options = opened.configOptions;
  const { sessionId } = opened;
  const prompt = (text, options) =>
    agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] }, options);
  await agent.request("session/set_mode", { sessionId, modeId: "debug" });

  seen.stops.push((await prompt("begin")).stopReason);

  let working = until((update) => update.content?.text?.includes("Working"));
  const cancelled = prompt("wait");
  await working;
  await agent.notify("session/cancel", { sessionId });
  seen.stops.push((await cancelled).stopReason);

  const abort = new AbortController();
  working = until((update) => update.content?.text?.includes("Working"));
  const aborted = prompt("wait again", { cancellationSignal: abort.signal });
  await working;
  abort.abort();
  seen.stops.push(await aborted.then(() => "answered", (error) => error.code));

  await agent.request("session/close", { sessionId });
  seen.resumed = await agent.request("session/resume", { sessionId, cwd, mcpServers: [] });
  seen.stops.push((await prompt("and now?")).stopReason);
  const forked = await agent.request("session/fork", { sessionId, cwd, mcpServers: [] });
  seen.forked = forked.modes.currentModeId;
  await agent.request("session/delete", { sessionId: forked.sessionId });
  seen.stranger = await agent.request("session/fork", { sessionId: "../x", cwd }).catch((error) => error.code);
  seen.unknown = await agent.request("session/none", {}).catch((error) => error.code);
  await agent.request("session/delete", { sessionId });
  seen.left = (await agent.request("session/list", { cwd })).sessions.length;
});
child.stdin.end();
seen.exit = await ended;
console.log(JSON.stringify(seen));
process.exit(0);
