//! One prompt to an answer: text or a typed value, with tools, budgets and events.
