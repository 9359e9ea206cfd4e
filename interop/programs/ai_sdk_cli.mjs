// The Vercel AI SDK with ai-sdk-provider-codex-cli, in both of its modes.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { load } from "./modules.mjs";

const { generateText, streamText, generateObject, jsonSchema } = await load("ai");
const { codexExec, createCodexAppServer } = await load("ai-sdk-provider-codex-cli");
const { CODICIL, WORK, ROOT } = process.env;
const ANSWER = "One two three four five, said the scripted model.";

// One process for each call.
const once = codexExec("mock-model", {
  codexPath: CODICIL, cwd: WORK, skipGitRepoCheck: true, approvalMode: "never", sandboxMode: "workspace-write",
});
assert.equal((await generateText({ model: once, prompt: "stream please" })).text, ANSWER);

// One server for all calls.
const provider = createCodexAppServer({
  defaultSettings: {
    codexPath: CODICIL, cwd: WORK, minCodexVersion: "0.153.0", approvalPolicy: "on-request",
    sandboxPolicy: "workspace-write", autoApprove: true, idleTimeoutMs: 60_000,
  },
});
try {
  const model = provider("mock-model");
  const streamed = streamText({ model, prompt: "stream please" });
  const deltas = [];
  for await (const delta of streamed.textStream) deltas.push(delta);
  assert.equal(deltas.join(""), ANSWER);
  assert.ok(deltas.length > 1, "the text comes in pieces");

  const options = (more) => ({ providerOptions: { "codex-app-server": more } });
  const first = await generateText({ model, prompt: "remember me", ...options({ threadMode: "persistent" }) });
  assert.match(first.text, /^You said: .*remember me$/);
  const { threadId } = first.providerMetadata["codex-app-server"];
  assert.match(threadId, /^[0-9a-f-]{36}$/);
  const second = await generateText({ model, prompt: "still there", ...options({ threadId }) });
  assert.match(second.text, /^You said: .*still there$/);
  assert.equal(second.providerMetadata["codex-app-server"].threadId, threadId);

  await generateText({ model, prompt: "touch outside" });
  assert.equal(fs.readFileSync(path.join(ROOT, "stamp.txt"), "utf8"), "stamped\n");
  await generateText({ model, prompt: "patch the greeting" });
  assert.equal(fs.readFileSync(path.join(WORK, "greeting.txt"), "utf8"), "Hello, world!\n");

  const schema = jsonSchema({
    type: "object", properties: { colour: { type: "string", enum: ["green"] } }, required: ["colour"],
    additionalProperties: false,
  });
  assert.deepEqual((await generateObject({ model, schema, prompt: "which colour" })).object, { colour: "green" });
} finally {
  await provider.close();
}
