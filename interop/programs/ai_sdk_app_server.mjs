// The Vercel AI SDK with ai-sdk-provider-codex-app-server: streaming, input while it works, resuming.
import assert from "node:assert/strict";
import { load } from "./modules.mjs";

const { streamText } = await load("ai");
const { createCodexAppServer, listModels } = await load("ai-sdk-provider-codex-app-server");
const { CODICIL, WORK } = process.env;
const ANSWER = "One two three four five, said the scripted model.";

let session;
const settings = {
  codexPath: CODICIL, cwd: WORK, approvalMode: "never", sandboxMode: "workspace-write", threadMode: "persistent",
  onSessionCreated: (created) => { session = created; },
};

async function say(model, prompt) {
  const result = streamText({ model, prompt });
  let text = "";
  for await (const part of result.fullStream) {
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") text += part.text;
  }
  return { text, metadata: await result.providerMetadata };
}

const { models } = await listModels({ codexPath: CODICIL });
assert.ok(models.length > 0);

const model = createCodexAppServer({ defaultSettings: settings })("mock-model");
const first = await say(model, "stream please");
assert.equal(first.text, ANSWER);
assert.match(session.threadId, /^[0-9a-f-]{36}$/);
const second = await say(model, "run a command");
assert.match(second.text, /The command said: from-the-shell/);

const resume = first.metadata?.codex?.sessionId ?? session.threadId;
const resumed = createCodexAppServer({ defaultSettings: { ...settings, resume } })("mock-model");
assert.equal((await say(resumed, "still there")).text, "You said: still there");
process.exit(0);
