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

/** Presses a button of the question that has the focus, or of the first one. */
function answer(decision) {
  const focused = document.activeElement?.closest?.("article.question");
  const question = focused ?? document.querySelector("article.question");
  question?.querySelector(`button[value=${decision}]`)?.click();
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
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
      if (isTyping(event.target)) return event.target.blur();
      return interrupt();
    }
    if (isTyping(event.target)) return;
    switch (event.key) {
      case "j": return move(1);
      case "k": return move(-1);
      case "a": return answer("accept");
      case "d": return answer("decline");
      case "c": return focus("message", event);
      case "?": return help.showModal();
      case "/":
        event.preventDefault();
        if (!focus("q", event)) window.location.href = "/?search";
    }
  });
  if (location.search === "?search") document.getElementById("q")?.focus();
}
