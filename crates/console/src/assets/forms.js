// Sends forms in the background, so that a page stays where it is, and loads parts of pages on demand.

import { suggestions } from "./suggestions.js";

const token = document.querySelector("meta[name=csrf]")?.content ?? "";

/** Shows a sentence for some seconds. */
export function notice(text) {
  const line = document.createElement("p");
  line.textContent = text;
  document.getElementById("notices")?.append(line);
  setTimeout(() => line.remove(), 8000);
}

/** Posts fields. Returns whether that worked; a failure is shown. */
export async function post(address, fields) {
  const headers = { "x-csrf-token": token };
  const response = await fetch(address, { method: "POST", headers, body: new URLSearchParams(fields) }).catch(() => null);
  if (!response) {
    notice("The console does not answer. Try again.");
    return false;
  }
  const location = response.headers.get("x-location");
  if (location) window.location.href = location;
  if (response.ok) return true;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  notice(page.getElementById("error")?.textContent ?? page.body.textContent);
  return false;
}

/** Forms whose answer has not come yet. They are not sent again. */
let busy = new WeakSet();

/** What forms wait for before they are sent: images that are being read. */
export const readings = new WeakMap();

/** The last message of each form that the server may not have received, with its id. */
const attempts = new WeakMap();

/** Returns the id of a message: the same for another try, so that the server takes the message once. */
function messageId(form, fields) {
  const content = JSON.stringify(fields);
  const last = attempts.get(form);
  if (last?.content === content) return last.id;
  const id = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  attempts.set(form, { content, id });
  return id;
}

async function submit(event) {
  const form = event.target;
  if (form.method === "post" && busy.has(form)) return event.preventDefault();
  if (form.dataset.confirm && !window.confirm(form.dataset.confirm)) return event.preventDefault();
  const isPost = form.method === "post";
  const isLive = "live" in form.dataset || "token" in form.dataset || "confirm" in form.dataset;
  if (!isPost) return;
  busy.add(form);
  if (!isLive) return;
  event.preventDefault();
  form.setAttribute("aria-busy", "true");
  const isDone = await send(form, event.submitter);
  form.removeAttribute("aria-busy");
  busy.delete(form);
  if (!isDone) return;
  form.closest("details.menu")?.removeAttribute("open");
  if (form.closest("[data-refresh]")) window.location.reload();
}

/** Sends a form in the background. Returns whether that worked. */
async function send(form, button) {
  // A form may disappear before its images are read, and with it the button.
  const choice = button?.name ? [[button.name, button.value]] : [];
  const written = [...new FormData(form), ...choice].filter(([name]) => name !== "csrf" && name !== "image");
  await Promise.all(readings.get(form) ?? []);
  const images = new FormData(form).getAll("image").map((image) => ["image", image]);
  const fields = [...written, ...images];
  const isMessage = "reset" in form.dataset && button?.value !== "stop";
  const id = isMessage ? [["id", messageId(form, fields)]] : [];
  if (!(await post(form.action, [...fields, ...id]))) return false;
  attempts.delete(form);
  if (isMessage) form.dispatchEvent(new CustomEvent("sent", { detail: fields }));
  return true;
}

/** Shows a diff in the other layout, in its place. */
async function changeLayout(event) {
  const button = event.target.closest?.("[data-diff-layout]");
  const isPress = event.type === "click" || event.key === " ";
  if (!button || !isPress || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const shown = button.closest("section");
  const response = await fetch(button.href).catch(() => null);
  if (!response?.ok) return notice("The diff cannot be shown in this layout.");
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  // A file may have changed several times: the number tells the changes apart.
  const next = page.querySelector(`section[data-change="${shown.dataset.change}"]`);
  if (!next) return notice("The diff is not available any more.");
  shown.replaceWith(next);
  next.querySelector("[data-diff-layout]")?.focus();
}

/** Loads what a link leads to into the page. */
async function load(event) {
  const link = event.target.closest?.("a[data-older], a[data-more]");
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  link.setAttribute("aria-busy", "true");
  const response = await fetch(link.href).catch(() => null);
  link.removeAttribute("aria-busy");
  if (!response?.ok) return notice("This part cannot be loaded.");
  const template = document.createElement("template");
  template.innerHTML = await response.text();
  const height = document.documentElement.scrollHeight;
  const place = link.closest(".more");
  if (link.href.includes("/output")) place.closest("article")?.querySelector("pre.output, .markdown")?.remove();
  if ("older" in link.dataset) joinTurns(template.content);
  else leaveOutKnown(template.content);
  place.replaceWith(template.content);
  // What the reader was looking at stays in its place.
  if ("older" in link.dataset) window.scrollBy(0, document.documentElement.scrollHeight - height);
}

/** Leaves out items that the page shows already, and then the link to those behind them. */
function leaveOutKnown(part) {
  const known = [...part.querySelectorAll("article[id]")].filter((item) => document.getElementById(item.id));
  known.forEach((item) => item.remove());
  if (known.length > 0) part.querySelector(".more")?.remove();
}

/** Returns whether a part of the page has an element that another part has too. */
function overlaps(one, other) {
  return [...one.querySelectorAll("section[id], article[id]")].some(({ id }) => other.id === id || other.querySelector(`#${CSS.escape(id)}`));
}

/** Puts the earlier items of a turn that the page shows into it. A turn that a link led to is shown once, in its place. */
function joinTurns(older) {
  for (const part of [...older.children].filter((child) => child.matches("section"))) {
    const linked = document.querySelector(".linked");
    if (linked && overlaps(linked, part)) linked.remove();
    const shown = document.querySelector(`#turns > #${CSS.escape(part.id)} > .items`);
    if (!("continued" in part.dataset) || !shown) continue;
    shown.prepend(...part.querySelector(".items").children);
    part.remove();
  }
}

/** Completes directories in fields that ask for one. An empty field has those of the last threads. */
function completeDirectories() {
  for (const field of document.querySelectorAll("[data-directories]")) {
    let asked = 0;
    const ask = async (text) => {
      const number = ++asked;
      const response = await fetch(`/complete/directories?q=${encodeURIComponent(text)}`).catch(() => null);
      // Answers may overtake each other; only the last one counts.
      const found = response?.ok ? await response.json() : [];
      if (number === asked && document.activeElement === field) show(found);
    };
    const choose = (text) => {
      field.value = text;
      ask(`${text}/`);
    };
    const { show } = suggestions(field, document.getElementById(field.getAttribute("aria-controls")), { choose, isFirstSelected: false });
    field.addEventListener("input", () => ask(field.value));
    field.addEventListener("focus", () => { if (!field.value) ask(""); });
  }
}

/** Applies a filter as soon as it is chosen. */
function applyFilters() {
  for (const form of document.querySelectorAll("[data-filters]")) {
    form.addEventListener("change", (event) => { if (event.target.type === "radio") form.requestSubmit(); });
  }
}

export function handleForms() {
  document.addEventListener("submit", submit);
  document.addEventListener("click", load);
  document.addEventListener("click", changeLayout);
  document.addEventListener("keydown", changeLayout);
  // One menu is open at a time.
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.removeAttribute("open");
    }
  });
  // A page that comes back from the browser's history can send its forms again.
  window.addEventListener("pageshow", () => { busy = new WeakSet(); });
  completeDirectories();
  applyFilters();
}
