// The windows of the desktop. Messages of an agent arrive as events; its questions become dialogs.

const token = document.querySelector("meta[name=csrf]").content;

/** Posts fields. Returns why that failed, or null. */
async function post(address, fields) {
  const options = { method: "POST", headers: { "x-csrf-token": token }, body: new URLSearchParams(fields) };
  const response = await fetch(address, options).catch(() => null);
  if (!response) return "The desktop does not answer. Try again.";
  return response.ok ? null : (await response.text()) || `Refused (${response.status}).`;
}

function element(tag, text, kind) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

/** Returns what an approval is about, in one line. */
function subject(approval) {
  if (approval.type === "command") return `Run ${approval.command}?`;
  if (approval.type === "file_change") return `Change ${approval.changes.map((change) => change.path).join(", ")}?`;
  return "May the agent go on?";
}

function openWindow(name, number) {
  const section = document.getElementById("window").content.cloneNode(true).querySelector("section");
  section.setAttribute("aria-label", name);
  section.querySelector("h2").textContent = name;
  const log = section.querySelector(".log");
  log.setAttribute("aria-label", `Messages of ${name}`);
  const form = section.querySelector("form");
  form.text.setAttribute("aria-label", `Message to ${name}`);
  document.querySelector("main").append(section);

  let answer = null;
  const dialogs = new Map();
  const add = (line) => {
    log.append(line);
    log.scrollTop = log.scrollHeight;
    return line;
  };
  const showFailure = (reason) => { if (reason) add(element("p", reason, "failed")); };
  const ask = ({ id, approval }) => {
    const dialog = document.createElement("dialog");
    dialog.setAttribute("aria-label", subject(approval));
    dialog.append(element("p", subject(approval)));
    if (approval.reason) dialog.append(element("p", approval.reason, "reason"));
    for (const [decision, label] of [["accept", "Approve"], ["acceptForSession", "Approve for session"], ["decline", "Decline"]]) {
      const button = element("button", label);
      button.onclick = async () => showFailure(await post(`/questions/${id}`, { decision }));
      dialog.append(button);
    }
    section.append(dialog);
    dialog.show();
    dialogs.set(id, dialog);
  };
  const show = {
    user: ({ text }) => { answer = null; add(element("p", text, "user")); },
    text: ({ text }) => { answer ??= add(element("p", "", "agent")); answer.append(text); log.scrollTop = log.scrollHeight; },
    tool_use: ({ name, input }) => { answer = null; add(element("p", `${name}: ${input.command ?? ""}`, "tool")); },
    tool_result: ({ output, isError }) => add(element("pre", output, isError ? "failed" : "output")),
    approval_request: ask,
    resolved: ({ id }) => { dialogs.get(id)?.remove(); dialogs.delete(id); },
    error: ({ message }) => add(element("p", message, "failed")),
    complete: () => { answer = null; section.removeAttribute("aria-busy"); },
  };
  const source = new EventSource(`/windows/${number}/events`);
  source.onmessage = (event) => {
    const message = JSON.parse(event.data);
    if (message.type === "user") section.setAttribute("aria-busy", "true");
    show[message.type]?.(message);
  };
  form.onsubmit = async (event) => {
    event.preventDefault();
    const text = form.text.value;
    const failure = await post(`/windows/${number}/messages`, { text });
    showFailure(failure);
    // What was written meanwhile stays.
    if (!failure && form.text.value === text) form.reset();
  };
}

document.body.dataset.windows.split(",").forEach(openWindow);
