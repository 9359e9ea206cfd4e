// The composer: images, completion of files and skills, and sending with the keyboard.

import { notice, readings } from "./forms.js";
import { scrollToEnd } from "./live.js";
import { suggestions } from "./suggestions.js";

const MAX_IMAGE_BYTES = 8 << 20;

/** Reads an image. Returns its `data:` address, or null. */
function readImage(file) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => resolve(null);
    reader.readAsDataURL(file);
  });
}

async function attachImage(file, list) {
  const value = await readImage(file);
  if (value === null) return notice(`${file.name} cannot be read.`);
  const box = document.createElement("figure");
  const picture = Object.assign(document.createElement("img"), { src: URL.createObjectURL(file), alt: file.name || "Pasted image" });
  const field = Object.assign(document.createElement("input"), { type: "hidden", name: "image", value });
  const remove = Object.assign(document.createElement("button"), { type: "button", textContent: "Remove" });
  remove.setAttribute("aria-label", `Remove ${picture.alt}`);
  remove.onclick = () => box.remove();
  box.append(picture, field, remove);
  list.append(box);
}

function attach(files, list) {
  const form = list.closest("form");
  const open = readings.get(form) ?? new Set();
  readings.set(form, open);
  for (const file of files) {
    if (!file.type.startsWith("image/")) notice(`${file.name} is not an image.`);
    else if (file.size > MAX_IMAGE_BYTES) notice(`${file.name} is larger than 8 MiB.`);
    else {
      const reading = attachImage(file, list).finally(() => open.delete(reading));
      open.add(reading);
    }
  }
}

/** Removes what was sent. What was written meanwhile stays. */
function removeSent(fields, message, list) {
  const sent = (fields.find(([name]) => name === "text")?.[1] ?? "").replaceAll("\r\n", "\n");
  if (message.value.startsWith(sent)) message.value = message.value.slice(sent.length);
  const images = fields.filter(([name]) => name === "image").map(([, value]) => value);
  for (const box of [...list.children]) {
    if (images.includes(box.querySelector("input").value)) box.remove();
  }
}

/** Returns the word at the cursor that begins with @ or $. */
function wordAtCursor(message) {
  const before = message.value.slice(0, message.selectionStart);
  const found = /(^|\s)([@$])([^\s@$]*)$/.exec(before);
  return found && { sign: found[2], text: found[3], start: before.length - found[3].length };
}

function completion(message, list) {
  let word = null;
  let asked = 0;
  const insert = (text) => {
    message.setRangeText(`${text} `, word.start, message.selectionStart, "end");
    message.focus();
  };
  const { show, hide } = suggestions(message, list, { choose: insert, isFirstSelected: true });
  message.addEventListener("input", async () => {
    word = wordAtCursor(message);
    const number = ++asked;
    if (!word) return hide();
    const kind = word.sign === "@" ? "files" : "skills";
    const address = `/threads/${message.dataset.complete}/complete/${kind}?q=${encodeURIComponent(word.text)}`;
    const response = await fetch(address).catch(() => null);
    // Answers may overtake each other; only the last one counts.
    if (number === asked && response?.ok) show(await response.json());
  });
}

export function handleComposer() {
  const form = document.getElementById("composer");
  const message = document.getElementById("message");
  const attachments = document.getElementById("attachments");
  if (!form) return;
  completion(message, document.getElementById("completions"));
  message.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || event.defaultPrevented) return;
    if (event.shiftKey || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (!event.repeat) form.requestSubmit(form.querySelector("button[value=send]"));
  });
  message.addEventListener("paste", (event) => attach(event.clipboardData.files, attachments));
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    attach(event.dataTransfer.files, attachments);
  });
  form.querySelector("[data-images]").addEventListener("change", (event) => {
    attach(event.target.files, attachments);
    event.target.value = "";
  });
  form.addEventListener("sent", (event) => {
    removeSent(event.detail, message, attachments);
    scrollToEnd();
  });
}
