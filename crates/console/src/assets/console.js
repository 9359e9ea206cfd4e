// The script of every page. Pages can be read and forms be sent without it.

import { handleComposer } from "./composer.js";
import { handleForms } from "./forms.js";
import { handleKeys } from "./keyboard.js";
import { follow, scrollToEnd } from "./live.js";

document.documentElement.classList.add("js");
handleForms();
handleComposer();
handleKeys();
follow();

// A thread is opened at its end, a link at its item.
if (document.body.dataset.thread && !location.hash) scrollToEnd();
