// Suggestions for a field: a list that is used with the arrow keys, Enter and Tab, or with a click.

/** Shows suggestions of `list` for `field`. `choose` is called with the text of the chosen one. */
export function suggestions(field, list, { choose, isFirstSelected }) {
  let selected = -1;

  const hide = () => {
    list.hidden = true;
    list.replaceChildren();
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };
  const select = (index) => {
    const options = [...list.children];
    if (options.length === 0) return;
    selected = (index + options.length) % options.length;
    options.forEach((option, at) => option.setAttribute("aria-selected", at === selected));
    field.setAttribute("aria-activedescendant", options[selected].id);
    options[selected].scrollIntoView({ block: "nearest" });
  };
  const take = (option) => {
    const text = option.firstChild.textContent;
    hide();
    choose(text);
  };
  const show = (found) => {
    list.replaceChildren(...found.map(({ text, hint }, index) => {
      const option = document.createElement("li");
      option.id = `${list.id}-${index}`;
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.append(text);
      if (hint) option.append(Object.assign(document.createElement("small"), { textContent: ` ${hint}` }));
      option.onmousedown = (event) => { event.preventDefault(); take(option); };
      return option;
    }));
    if (found.length === 0) return hide();
    list.hidden = false;
    selected = -1;
    field.setAttribute("aria-expanded", "true");
    field.removeAttribute("aria-activedescendant");
    if (isFirstSelected) select(0);
  };

  field.addEventListener("blur", hide);
  field.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    // Tab takes the first one also if none is selected.
    const option = list.children[event.key === "Tab" ? Math.max(selected, 0) : selected];
    if (event.key === "ArrowDown") select(selected + 1);
    else if (event.key === "ArrowUp") select(selected < 0 ? -1 : selected - 1);
    else if ((event.key === "Enter" || (event.key === "Tab" && !event.shiftKey)) && option) take(option);
    else if (event.key === "Escape") hide();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return { show, hide };
}
