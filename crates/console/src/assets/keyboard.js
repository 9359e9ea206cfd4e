// Keys: j and k move, a and d answer, / searches, c writes, ? helps, Esc interrupts.

function isTyping(target) {
  return target.closest("input, textarea, select, dialog[open]") !== null;
}

/** Moves the focus to the next or previous item or question. */
function move(step) {
  const items = [...document.querySelectorAll("main article, main .rows > li")];
  if (items.length === 0) return;
  const current = items.findIndex((item) => item.contains(document.activeElement));
  const first = step > 0 ? 0 : items.length - 1;
  const next = items[current < 0 ? first : Math.min(Math.max(current + step, 0), items.length - 1)];
  const target = next.matches("[tabindex]") ? next : next.querySelector("a");
  target.focus({ preventScroll: true });
  next.scrollIntoView({ block: "center", behavior: "auto" });
}

/** Keys that follow each other within this time are part of what a person types, also if the field has gone meanwhile. */
const TYPING_TIME = 1500;

let typedAt = -TYPING_TIME;

/** Returns whether a key is part of a text whose field has gone, with its question. */
function continuesText(event) {
  if (isTyping(event.target)) {
    typedAt = ["Escape", "Tab", "Enter"].includes(event.key) ? -TYPING_TIME : event.timeStamp;
    return false;
  }
  if (event.timeStamp - typedAt > TYPING_TIME) return false;
  typedAt = event.timeStamp;
  return true;
}

function isInSight(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 0 && top < window.innerHeight;
}

/** Presses a button of the question that has the focus, or of the only one, if it is in sight. Otherwise goes to the first one. */
function answer(decision) {
  const focused = document.activeElement?.closest?.("article.question");
  const questions = document.querySelectorAll("article.question");
  const only = questions.length === 1 && isInSight(questions[0]) ? questions[0] : null;
  const question = focused ?? only;
  if (question) return question.querySelector(`button[value=${decision}]`)?.click();
  questions[0]?.focus({ preventScroll: true });
  questions[0]?.scrollIntoView({ block: "center", behavior: "auto" });
}

function interrupt() {
  const stop = document.querySelector("[data-stop]");
  if (stop && window.confirm("Interrupt the turn?")) stop.click();
}

function focus(id, event) {
  const field = document.getElementById(id);
  if (!field) return false;
  event.preventDefault();
  field.focus();
  return true;
}

export function handleKeys() {
  const help = document.getElementById("help");
  document.querySelector("[data-help]")?.addEventListener("click", () => help.showModal());
  document.addEventListener("pointerdown", () => { typedAt = -TYPING_TIME; });
  document.addEventListener("keydown", (event) => {
    if (continuesText(event)) return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
      if (isTyping(event.target)) return event.target.blur();
      return interrupt();
    }
    if (isTyping(event.target)) return;
    switch (event.key) {
      case "j": return move(1);
      case "k": return move(-1);
      case "a": return event.repeat ? null : answer("accept");
      case "d": return event.repeat ? null : answer("decline");
      case "c": return focus("message", event);
      case "?": return help.showModal();
      case "/":
        event.preventDefault();
        if (!focus("q", event)) window.location.href = "/?search";
    }
  });
  if (location.search === "?search") document.getElementById("q")?.focus();
}
