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

/** The length of the text of elements that text is appended to. */
const lengths = new WeakMap();

const operations = {
  put({ id, in: parent, html }) {
    const next = parse(html).firstElementChild;
    const known = document.getElementById(id);
    if (known) {
      keepChoice(known, next);
      known.replaceWith(next);
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
    const focused = target.contains(document.activeElement) ? document.activeElement : null;
    target.replaceChildren(next);
    // The focus stays where it was, though the element is a new one.
    const again = focused && [...target.querySelectorAll(focused.localName)].find((element) => element.name === focused.name);
    again?.focus({ preventScroll: true });
  },
  count({ questions }) {
    const title = document.querySelector("title");
    const name = `${title.dataset.title} · Codicil`;
    document.title = questions > 0 ? `(${questions}) ${name}` : name;
    document.querySelector("link[rel=icon]").href = `/assets/icon.svg?n=${questions}`;
    for (const count of document.querySelectorAll("[data-count], #question-count")) {
      count.textContent = questions > 0 ? questions : "";
    }
  },
};

/** Makes the children of an element those given. Children that have not changed keep what a person typed there. */
function syncChildren(target, children) {
  const known = new Map([...target.children].map((child) => [child.id, child]));
  const next = children.map((child) => {
    const old = known.get(child.id);
    child.dataset.source = digest(child.outerHTML);
    return old && old.dataset.source === child.dataset.source ? old : child;
  });
  if (next.length === target.children.length && next.every((child, index) => child === target.children[index])) return;
  target.replaceChildren(...next);
}

/** Returns a short text that differs for different HTML. Ages of times do not count. */
function digest(html) {
  const text = html.replace(/<time[^>]*>[^<]*<\/time>/g, "");
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
  if (here) syncChildren(here, cards.filter(isHere));
  const side = document.getElementById("questions");
  if (side) syncChildren(side, cards.filter((card) => !isHere(card)));
  if (wasAtEnd && here?.children.length) scrollToEnd();
}

/** Marks the thread of this page in the list. */
export function markCurrent() {
  for (const link of document.querySelectorAll("[data-thread-link]")) {
    if (link.dataset.threadLink === thread) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

let refreshing;

/** Reads the list of the page again, if it has one. */
function refreshList() {
  const list = document.querySelector("[data-refresh]");
  if (!list || list.querySelector("details[open]")) return;
  clearTimeout(refreshing);
  refreshing = setTimeout(async () => {
    const response = await fetch(location.href).catch(() => null);
    if (!response?.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const next = page.querySelector("[data-refresh]");
    if (next && !list.querySelector("details[open]")) list.replaceChildren(...next.childNodes);
  }, 300);
}

function carryOut(event) {
  const wasAtEnd = isAtEnd();
  for (const operation of JSON.parse(event.data)) {
    operations[operation.op]?.(operation);
    if (operation.op === "sync" && operation.id === "thread-list") refreshList();
  }
  if (event.lastEventId) after = event.lastEventId;
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
}

/** Follows the server for as long as the page is looked at. Browsers open few connections to a host. */
export function follow() {
  let hiding = null;
  // A hidden page looks for questions now and then, for the number in its title.
  const glance = () => {
    connect();
    hiding = setTimeout(rest, 3_000);
  };
  const rest = () => {
    disconnect();
    hiding = setTimeout(glance, 30_000);
  };
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(rest, 120_000);
    else connect();
  });
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", connect);
  connect();
  markCurrent();
}
