//! Reports a run as JSON, one event per line.
//!
//! Items get ids of their own, `item_0` and so on, in the order in which they are first reported.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use codicil_client::{ClientError, CompletedTurn};
use codicil_protocol::{
    ItemId, McpServerStartupState, ServerNotification, Thread, ThreadItem, TurnPlanStepStatus,
    TurnPlanUpdatedNotification,
};

use super::{
    json_events::{ItemDetails, ItemStage, JsonItem, JsonLine, JsonMessage, TodoEntry, details},
    report::{failed_server, with_details},
    usage::TokenCounter,
};

pub struct JsonReport<W> {
    out: W,
    ids: HashMap<ItemId, String>,
    count: usize,
    /// The agent's plan, once it has one.
    todo: Option<JsonItem>,
    usage: TokenCounter,
}

impl<W: Write> JsonReport<W> {
    pub fn new(out: W) -> Self {
        Self { out, ids: HashMap::new(), count: 0, todo: None, usage: TokenCounter::default() }
    }

    pub fn thread_opened(&mut self, thread: &Thread) -> io::Result<()> {
        self.usage = TokenCounter::of(thread);
        self.write(&JsonLine::ThreadStarted { thread_id: &thread.id })
    }

    pub fn event(&mut self, event: &ServerNotification) -> io::Result<()> {
        use ServerNotification as N;
        self.usage.on_event(event);
        match event {
            N::TurnStarted(_) => self.write(&JsonLine::TurnStarted),
            N::ItemStarted(started) => self.item(&started.item, ItemStage::Started),
            N::ItemCompleted(completed) => self.item(&completed.item, ItemStage::Completed),
            N::TurnPlanUpdated(plan) => self.plan(plan),
            N::ErrorReported(report) => {
                let text = with_details(&report.error.message, report.error.additional_details.as_deref());
                if report.will_retry { self.warn(&text) } else { self.fatal(&text) }
            }
            N::McpServerStartupStatusUpdated(server) if server.status == McpServerStartupState::Failed => {
                self.warn(&failed_server(server))
            }
            N::ConfigWarning(warning) => {
                self.warn(&with_details(&warning.summary, warning.details.as_deref()))
            }
            N::DeprecationNotice(notice) => {
                self.warn(&with_details(&notice.summary, notice.details.as_deref()))
            }
            N::ModelRerouted(route) => self.warn(&format!(
                "the provider answers with {} instead of {}",
                route.to_model, route.from_model
            )),
            _ => Ok(()),
        }
    }

    /// Reports a warning, which does not end the turn.
    pub fn warn(&mut self, message: &str) -> io::Result<()> {
        let item =
            JsonItem { id: self.new_id(), details: ItemDetails::Error { message: message.to_owned() } };
        self.write(&JsonLine::ItemCompleted { item: &item })
    }

    pub fn fatal(&mut self, message: &str) -> io::Result<()> {
        self.write(&JsonLine::Error { message })
    }

    pub fn turn_ended(&mut self, result: &Result<CompletedTurn, ClientError>) -> io::Result<()> {
        if let Some(list) = self.todo.take() {
            self.write(&JsonLine::ItemCompleted { item: &list })?;
        }
        let error = match result {
            Ok(_) => return self.write(&JsonLine::TurnCompleted { usage: self.usage.used().into() }),
            Err(ClientError::TurnFailed(turn)) => turn.message.clone(),
            Err(ClientError::TurnCancelled(_)) => "interrupted".to_owned(),
            Err(error) => error.to_string(),
        };
        self.write(&JsonLine::TurnFailed { error: JsonMessage { message: error } })
    }

    fn item(&mut self, item: &ThreadItem, stage: ItemStage) -> io::Result<()> {
        let Some(details) = details(item, stage) else { return Ok(()) };
        let id = match item.id().and_then(|id| self.ids.remove(id)) {
            Some(id) => id,
            None => self.new_id(),
        };
        let reported = JsonItem { id, details };
        if stage == ItemStage::Completed {
            return self.write(&JsonLine::ItemCompleted { item: &reported });
        }
        if let Some(own) = item.id() {
            self.ids.insert(own.clone(), reported.id.clone());
        }
        self.write(&JsonLine::ItemStarted { item: &reported })
    }

    /// Reports the plan as an item that is updated until the turn ends.
    fn plan(&mut self, plan: &TurnPlanUpdatedNotification) -> io::Result<()> {
        let steps = plan.plan.iter().map(|step| TodoEntry {
            text: step.step.clone(),
            completed: step.status == TurnPlanStepStatus::Completed,
        });
        let details = ItemDetails::TodoList { items: steps.collect() };
        let known = self.todo.take().map(|list| list.id);
        let is_new = known.is_none();
        let list = JsonItem { id: known.unwrap_or_else(|| self.new_id()), details };
        self.write(&if is_new {
            JsonLine::ItemStarted { item: &list }
        } else {
            JsonLine::ItemUpdated { item: &list }
        })?;
        self.todo = Some(list);
        Ok(())
    }

    fn new_id(&mut self) -> String {
        let id = format!("item_{}", self.count);
        self.count += 1;
        id
    }

    /// Writes a line and flushes it, so that a reader can act on it immediately.
    fn write(&mut self, event: &JsonLine<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        self.out.write_all(&line)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests;
