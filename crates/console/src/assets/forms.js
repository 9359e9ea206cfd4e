// Sends forms in the background, so that a page stays where it is, and loads parts of pages on demand.

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

async function submit(event) {
  const form = event.target;
  if (form.dataset.confirm && !window.confirm(form.dataset.confirm)) return event.preventDefault();
  const isPost = form.method === "post";
  const isLive = "live" in form.dataset || "token" in form.dataset || "confirm" in form.dataset;
  if (!isPost || !isLive) return;
  event.preventDefault();
  const button = event.submitter;
  const fields = [...new FormData(form, button)].filter(([name]) => name !== "csrf");
  const buttons = [...form.querySelectorAll("button")];
  buttons.forEach((other) => (other.disabled = true));
  const isDone = await post(form.action, fields);
  buttons.forEach((other) => (other.disabled = false));
  if (!isDone) return;
  if ("reset" in form.dataset && button?.value !== "stop") form.dispatchEvent(new CustomEvent("sent"));
  form.closest("details.menu")?.removeAttribute("open");
  if (form.closest("[data-refresh]")) window.location.reload();
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
  const name = shown.getAttribute("aria-label");
  const next = [...page.querySelectorAll("section")].find((section) => section.getAttribute("aria-label") === name);
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
  place.replaceWith(template.content);
  // What the reader was looking at stays in its place.
  if ("older" in link.dataset) window.scrollBy(0, document.documentElement.scrollHeight - height);
}

/** Puts the earlier items of a turn that the page shows into it. A turn that a link led to is shown once, in its place. */
function joinTurns(older) {
  for (const part of [...older.children].filter((child) => child.matches("section"))) {
    document.querySelector(`.linked > #${CSS.escape(part.id)}`)?.parentElement.remove();
    const shown = document.querySelector(`#turns > #${CSS.escape(part.id)} > .items`);
    if (!("continued" in part.dataset) || !shown) continue;
    shown.prepend(...part.querySelector(".items").children);
    part.remove();
  }
}

/** Completes directories in fields that ask for one. */
function completeDirectories() {
  for (const field of document.querySelectorAll("[data-directories]")) {
    let asked = 0;
    field.addEventListener("input", async () => {
      const number = ++asked;
      const response = await fetch(`/complete/directories?q=${encodeURIComponent(field.value)}`).catch(() => null);
      // Answers may overtake each other; only the last one counts.
      if (!response?.ok || number !== asked) return;
      const options = (await response.json()).map(({ text }) => Object.assign(document.createElement("option"), { value: text }));
      field.list?.replaceChildren(...options);
    });
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
  completeDirectories();
}
