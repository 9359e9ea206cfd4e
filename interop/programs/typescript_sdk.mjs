// A program that uses the official TypeScript SDK: threads, streams, schemas, images, resuming, aborting.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { load } from "./modules.mjs";

const { Codex } = await load("@openai/codex-sdk");
const { CODICIL, WORK, ROOT } = process.env;
const codex = new Codex({ codexPathOverride: CODICIL, config: { show_raw_agent_reasoning: true } });
const options = { workingDirectory: WORK, sandboxMode: "workspace-write", approvalPolicy: "never" };

// One turn after another on one thread.
const thread = codex.startThread(options);
const first = await thread.run("stream please");
assert.equal(first.finalResponse, "One two three four five, said the scripted model.");
assert.ok(first.items.some((item) => item.type === "reasoning"));
assert.ok(first.usage.input_tokens > 0 && first.usage.output_tokens > 0);
assert.match(thread.id, /^[0-9a-f-]{36}$/);
const second = await thread.run("and again");
assert.equal(second.finalResponse, "You said: and again");

// Events as they come: a command, and a change of a file.
const { events } = await thread.runStreamed("run a command");
const seen = [];
for await (const event of events) seen.push(event);
assert.deepEqual([seen[0].type, seen.at(-1).type], ["thread.started", "turn.completed"]);
assert.ok(seen.some((event) => event.type === "turn.started"));
const begun = seen.find((event) => event.type === "item.started" && event.item.type === "command_execution");
const ended = seen.find((event) => event.type === "item.completed" && event.item.type === "command_execution");
assert.equal(begun.item.status, "in_progress");
assert.equal(ended.item.id, begun.item.id);
assert.deepEqual([ended.item.exit_code, ended.item.aggregated_output], [0, "from-the-shell\n"]);

const patched = await thread.run("patch the greeting");
const change = patched.items.find((item) => item.type === "file_change");
assert.equal(change.status, "completed");
assert.equal(change.changes[0].kind, "update");
assert.ok(change.changes[0].path.endsWith("greeting.txt"));
assert.equal(fs.readFileSync(path.join(WORK, "greeting.txt"), "utf8"), "Hello, world!\n");

// A schema for the answer.
const outputSchema = {
  type: "object",
  properties: { status: { type: "string", enum: ["fine", "broken"] }, count: { type: "integer", minimum: 2 } },
  required: ["status", "count"],
  additionalProperties: false,
};
const structured = await thread.run("how is it", { outputSchema });
assert.deepEqual(JSON.parse(structured.finalResponse), { status: "fine", count: 2 });

// An image beside the text.
const image = path.join(ROOT, "dot.png");
fs.writeFileSync(image, Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64"));
const looked = await thread.run([{ type: "text", text: "look" }, { type: "local_image", path: image }]);
assert.equal(looked.finalResponse, "You said: look");

// Another program finds the thread again.
const resumed = new Codex({ codexPathOverride: CODICIL }).resumeThread(thread.id, options);
assert.equal((await resumed.run("still there")).finalResponse, "You said: still there");
assert.equal(resumed.id, thread.id);

// A turn that fails says why.
await assert.rejects(codex.startThread(options).run("fail"), /the model refuses/);

// A turn that is given up ends at once, and takes its command with it.
const abort = new AbortController();
const given_up = codex.startThread(options);
const began = Date.now();
await assert.rejects(async () => {
  const { events } = await given_up.runStreamed("wait for it", { signal: abort.signal });
  for await (const event of events) {
    if (event.type === "item.started" && event.item.type === "command_execution") abort.abort();
  }
}, { name: "AbortError" });
assert.ok(Date.now() - began < 30_000, "an aborted turn has to end");

console.log("thread", thread.id);
