// Carries out what the server tells: operations on elements that are found by their ids.

const MAX_TEXT = 200_000;
const thread = document.body.dataset.thread;

/** Returns the elements of a piece of HTML. */
function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** Returns how far a page is scrolled to show the end of its main part. The questions of other threads may be below it. */
function endPosition() {
  const main = document.getElementById("main");
  const bottom = main ? main.getBoundingClientRect().bottom + window.scrollY : document.documentElement.scrollHeight;
  return Math.max(bottom - window.innerHeight, 0);
}

/** Returns whether the reader is at the end of the thread, which then stays in sight. */
function isAtEnd() {
  return Math.abs(endPosition() - window.scrollY) < 120;
}

/** Shows the end of the thread. */
export function scrollToEnd() {
  window.scrollTo(0, endPosition());
}

/** Keeps open what a person has opened, and closed what a person has closed. Reasoning is open while it streams, and folded then. */
function keepChoice(known, next) {
  const choice = known.querySelector("details")?.dataset.choice;
  const details = next.querySelector("details");
  if (!choice || !details) return;
  details.open = choice === "open";
  details.dataset.choice = choice;
}

document.addEventListener("click", (event) => {
  const details = event.target.closest?.("article > details > summary")?.parentElement;
  if (details) details.dataset.choice = details.open ? "closed" : "open";
});

/** Returns what tells an element from its neighbours: the same in an element that replaces it. */
function identity(element) {
  const value = ["submit", "radio", "checkbox"].includes(element.type) ? element.value : "";
  const parts = [element.localName, element.name ?? "", value, element.getAttribute("href"), element.getAttribute("aria-label")];
  return element.id || parts.join(" ");
}

/** Gives the focus, which was on an element that was replaced, to the same element of `scope`. */
function restoreFocus(scope, focused) {
  if (!focused) return;
  const same = [scope, ...scope.querySelectorAll("*")].find((element) => identity(element) === identity(focused));
  (same ?? scope).focus({ preventScroll: true });
}

/** Returns the element with the focus if it is in `scope`. */
function focusWithin(scope) {
  return scope.contains(document.activeElement) ? document.activeElement : null;
}

/** Takes over what a person has typed and chosen in an element that is replaced. */
function takeOverFields(known, next) {
  const fields = "input:not([type=hidden]), textarea, select";
  const old = new Map([...known.querySelectorAll(fields)].map((field) => [identity(field), field]));
  for (const field of next.querySelectorAll(fields)) {
    const typed = old.get(identity(field));
    if (!typed) continue;
    field.value = typed.value;
    field.checked = typed.checked;
  }
}

/** The length of the text of elements that text is appended to. */
const lengths = new WeakMap();

const operations = {
  put({ id, in: parent, html }) {
    const next = parse(html).firstElementChild;
    const known = document.getElementById(id);
    if (!next || known?.isEqualNode(next)) return;
    if (known) {
      const focused = focusWithin(known);
      keepChoice(known, next);
      known.replaceWith(next);
      restoreFocus(next, focused);
      if (id === "thread-title") rename(next.textContent);
    } else if (parent) {
      const container = document.getElementById(parent);
      const end = container?.querySelector(":scope > .turn-end");
      if (end && !next.matches(".turn-end")) end.before(next);
      else container?.append(next);
    }
  },
  text({ id, text }) {
    const target = document.getElementById(id);
    if (!target) return;
    target.append(text);
    if (target.matches("pre")) target.scrollTop = target.scrollHeight;
    // Counted, because reading the whole text for every piece of it would take ever longer.
    let length = (lengths.get(target) ?? target.textContent.length - text.length) + text.length;
    while (length > MAX_TEXT && target.childNodes.length > 1) {
      length -= target.firstChild.textContent.length;
      target.firstChild.remove();
    }
    lengths.set(target, length);
  },
  drop({ id }) {
    document.getElementById(id)?.remove();
  },
  sync({ id, html }) {
    if (id === "questions") return syncQuestions(html);
    const target = document.getElementById(id);
    if (target) syncChildren(target, [...parse(html).children]);
    markCurrent();
  },
  async load({ id }) {
    const target = document.getElementById(id);
    const response = target && (await fetch(target.dataset.address).catch(() => null));
    if (!response?.ok) return;
    const next = parse(await response.text());
    const focused = focusWithin(target);
    target.replaceChildren(next);
    restoreFocus(target, focused);
  },
  count({ questions }) {
    openQuestions = questions;
    showTitle();
    document.querySelector("link[rel=icon]").href = `/assets/icon.svg?n=${questions}`;
    for (const count of document.querySelectorAll("[data-count], #question-count")) {
      count.textContent = questions > 0 ? questions : "";
    }
  },
};

let openQuestions = Number(document.querySelector("[data-count]")?.textContent ?? 0);

function showTitle() {
  const name = `${document.querySelector("title").dataset.title} · Codicil`;
  document.title = openQuestions > 0 ? `(${openQuestions}) ${name}` : name;
}

/** Shows the new name of the thread in the title of the page. */
function rename(name) {
  document.querySelector("title").dataset.title = name;
  showTitle();
}

/** Makes the children of an element those given. Children that have not changed stay in the page: taking one out, even for
    a moment, would take the focus from a person who types there. */
function syncChildren(target, children) {
  const known = new Map([...target.children].map((child) => [child.id, child]));
  const focused = focusWithin(target);
  const next = children.map((child) => {
    const old = known.get(child.id);
    const source = digest(child.outerHTML);
    if (old && (old.dataset.source ??= digest(old.outerHTML)) === source) return old;
    child.dataset.source = source;
    if (old) takeOverFields(old, child);
    return child;
  });
  const kept = new Set(next);
  for (const child of [...target.children]) if (!kept.has(child)) child.remove();
  let place = target.firstElementChild;
  for (const child of next) {
    if (child === place) place = place.nextElementSibling;
    else target.insertBefore(child, place);
  }
  if (!focused || document.activeElement === focused) return;
  const replaced = [...known.values()].find((child) => child.contains(focused));
  const again = next.find((child) => child.id === replaced?.id);
  if (again) restoreFocus(again, focused);
}

/** Returns a short text that differs for different HTML. Ages of times and the session's token do not count. */
function digest(html) {
  const text = html.replace(/<time[^>]*>[^<]*<\/time>|<input type="hidden" name="csrf"[^>]*>/g, "");
  let hash = 5381;
  for (let index = 0; index < text.length; index++) hash = ((hash * 33) ^ text.charCodeAt(index)) | 0;
  return `${text.length}.${hash}`;
}

/** Shows the questions of this page's thread with it, and the others at the side. */
function syncQuestions(html) {
  const cards = [...parse(html).children];
  const here = document.getElementById("questions-here");
  const isHere = (card) => here !== null && card.dataset.questionThread === thread;
  const wasAtEnd = isAtEnd();
  announceQuestions(cards);
  if (here) syncChildren(here, cards.filter(isHere));
  const side = document.getElementById("questions");
  if (side) syncChildren(side, cards.filter((card) => !isHere(card)));
  if (wasAtEnd && here?.children.length) scrollToEnd();
}

/** Has new questions read aloud. */
function announceQuestions(cards) {
  const added = cards.filter((card) => !document.getElementById(card.id)).map((card) => card.getAttribute("aria-label"));
  if (added.length > 0) document.getElementById("announcement").textContent = `New question: ${added.join(", ")}`;
}

/** Marks the thread of this page in the list. */
export function markCurrent() {
  for (const link of document.querySelectorAll("[data-thread-link]")) {
    if (link.dataset.threadLink === thread) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

let isListStale = false;
let refreshing = null;

/** Reads the list of the page again, if it has one, and again as long as it changes. On a busy server it always changes. */
function refreshList() {
  isListStale = true;
  refreshing ??= refreshWhileStale().finally(() => { refreshing = null; });
}

async function refreshWhileStale() {
  const list = document.querySelector("[data-refresh]");
  const isInUse = () => list.querySelector("details[open]") !== null;
  while (list && isListStale && !isInUse()) {
    isListStale = false;
    await new Promise((resolve) => setTimeout(resolve, 300));
    const response = await fetch(location.href).catch(() => null);
    if (!response?.ok) continue;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const next = page.querySelector("[data-refresh]");
    if (!next || isInUse() || list.isEqualNode(next)) continue;
    const focused = focusWithin(list);
    list.replaceChildren(...next.childNodes);
    restoreFocus(list, focused);
  }
}

function carryOut(event) {
  const wasAtEnd = isAtEnd();
  for (const operation of JSON.parse(event.data)) {
    operations[operation.op]?.(operation);
    if (operation.op === "sync" && operation.id === "thread-list") refreshList();
  }
  if (event.lastEventId) after = event.lastEventId;
  // Read aloud when the turn is over, not in pieces.
  document.getElementById("turns")?.setAttribute("aria-busy", document.querySelector("[data-stop]") !== null);
  if (wasAtEnd && thread) scrollToEnd();
}

let source = null;
let after = new URLSearchParams(document.body.dataset.events).get("after");
let retry = null;

/** Opens the stream of events, at the position that the page has. */
function connect() {
  if (source) return;
  const query = new URLSearchParams();
  if (thread) query.set("thread", thread);
  if (thread && after) query.set("after", after);
  source = new EventSource(`/events?${query}`);
  source.onmessage = carryOut;
  source.onopen = () => setConnected(true);
  source.onerror = () => {
    setConnected(false);
    // A browser gives up when the answer is an error, for example while the server starts.
    if (source.readyState === EventSource.CLOSED) {
      disconnect();
      retry ??= setTimeout(() => { retry = null; connect(); }, 1500);
    }
  };
}

function disconnect() {
  source?.close();
  source = null;
}

function setConnected(isConnected) {
  document.body.toggleAttribute("data-offline", !isConnected);
  const line = document.getElementById("connection");
  const text = isConnected ? "" : "Connection lost. Trying again…";
  // A text that is set again would be read aloud again.
  if (line.textContent !== text) line.textContent = text;
}

/** Follows the server for as long as the page is looked at. Browsers open six connections to a host for all of their pages. */
export function follow() {
  let planned = null;
  const plan = (task, time) => {
    clearTimeout(planned);
    planned = setTimeout(task, time);
  };
  // A hidden page looks for questions now and then, for the number in its title.
  const glance = () => {
    connect();
    plan(rest, 3_000);
  };
  const rest = () => {
    disconnect();
    plan(glance, 30_000);
  };
  const watch = () => {
    clearTimeout(planned);
    connect();
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? plan(rest, 5_000) : watch()));
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", () => (document.hidden ? rest() : watch()));
  if (document.hidden) rest();
  else connect();
  markCurrent();
}
