//! Server requests of other nodes: each has an id of its owner and one of this node, which the client sees.

use std::collections::HashMap;

use codicil_engine::ClientReply;
use codicil_protocol::{ThreadId, rpc::RequestId};
use serde_json::Value;

use super::upstream_handle::UpstreamHandle;

/// The open server requests that this node has passed on to its client, by the id that the client knows.
#[derive(Default)]
pub struct RelayedQuestions {
    open: HashMap<RequestId, RelayedQuestion>,
}

/// A server request of another node.
pub struct RelayedQuestion {
    pub upstream: UpstreamHandle,
    /// The id that the owner gave it.
    pub asked_as: RequestId,
    pub content: QuestionContent,
    /// The client's answer, until the owner says that the request is resolved.
    reply: Option<ClientReply>,
}

/// What is asked. The same question of the next owner of the thread has the same content.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionContent {
    pub thread: ThreadId,
    pub turn: Option<String>,
    pub method: &'static str,
    pub params: Value,
}

/// What follows from a question of an owner.
pub struct AskedQuestion {
    pub id: RequestId,
    /// The answer that the client has given to the earlier owner.
    pub reply: Option<ClientReply>,
}

impl RelayedQuestions {
    /// Adds a question. One that an earlier connection has asked keeps its id.
    pub fn ask(
        &mut self,
        upstream: &UpstreamHandle,
        asked_as: RequestId,
        content: QuestionContent,
        new_id: impl FnOnce() -> RequestId,
    ) -> AskedQuestion {
        let is_same = |known: &RelayedQuestion| {
            let is_of_this_connection = known.upstream.is(upstream);
            if is_of_this_connection { known.asked_as == asked_as } else { known.content == content }
        };
        let known = self.open.iter().filter(|(_, known)| is_same(known)).map(|(id, _)| id).min().cloned();
        let id = known.unwrap_or_else(new_id);
        let reply = self.open.get(&id).and_then(|known| known.reply.clone());
        let question =
            RelayedQuestion { upstream: upstream.clone(), asked_as, content, reply: reply.clone() };
        self.open.insert(id.clone(), question);
        AskedQuestion { id, reply }
    }

    /// Keeps the client's answer. Returns where it goes, or `None` if no other node has asked.
    pub fn answer(&mut self, id: &RequestId, reply: &ClientReply) -> Option<(UpstreamHandle, RequestId)> {
        let question = self.open.get_mut(id)?;
        question.reply.get_or_insert_with(|| reply.clone());
        Some((question.upstream.clone(), question.asked_as.clone()))
    }

    /// Removes a question that its owner has resolved. Returns the id that the client knows.
    pub fn resolve(&mut self, upstream: &UpstreamHandle, asked_as: &RequestId) -> Option<RequestId> {
        let is_it =
            |question: &RelayedQuestion| question.upstream.is(upstream) && question.asked_as == *asked_as;
        let id = self.open.iter().find(|(_, question)| is_it(question)).map(|(id, _)| id.clone())?;
        self.open.remove(&id);
        Some(id)
    }

    /// Removes the questions of a turn that has ended. Returns the ids that the client knows.
    pub fn end_turn(&mut self, thread: &ThreadId, turn: &str) -> Vec<RequestId> {
        let is_of_turn =
            |content: &QuestionContent| content.thread == *thread && content.turn.as_deref() == Some(turn);
        self.take(is_of_turn).into_iter().map(|question| question.id).collect()
    }

    /// Removes the questions of a thread, oldest first.
    pub fn take_thread(&mut self, thread: &ThreadId) -> Vec<TakenQuestion> {
        self.take(|content| content.thread == *thread)
    }

    pub fn has_any(&self) -> bool {
        !self.open.is_empty()
    }

    fn take(&mut self, is_taken: impl Fn(&QuestionContent) -> bool) -> Vec<TakenQuestion> {
        let taken = self.open.extract_if(|_, question| is_taken(&question.content));
        let mut taken: Vec<_> = taken
            .map(|(id, question)| TakenQuestion { id, content: question.content, reply: question.reply })
            .collect();
        taken.sort_by(|one, other| one.id.cmp(&other.id));
        taken
    }
}

/// A question that the relay has forgotten.
pub struct TakenQuestion {
    pub id: RequestId,
    pub content: QuestionContent,
    pub reply: Option<ClientReply>,
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};
    use tokio::sync::mpsc;

    use super::*;

    fn upstream(number: u64) -> UpstreamHandle {
        UpstreamHandle::new(number, mpsc::channel(1).0)
    }

    fn approval(item: &str) -> QuestionContent {
        QuestionContent {
            thread: "t".into(),
            turn: Some("u".to_owned()),
            method: "item/commandExecution/requestApproval",
            params: json!({ "threadId": "t", "turnId": "u", "itemId": item }),
        }
    }

    const fn id(number: i64) -> RequestId {
        RequestId::Integer(number)
    }

    fn unused() -> RequestId {
        panic!("the question has an id already")
    }

    #[test]
    fn a_question_has_an_id_of_this_node() {
        let (mut questions, a, b) = (RelayedQuestions::default(), upstream(1), upstream(2));
        let first = questions.ask(&a, id(0), approval("x"), || id(40));
        assert_eq!(first.id, id(40));
        assert_eq!(questions.ask(&b, id(0), approval("y"), || id(41)).id, id(41));
        let yes = Ok(to_raw_value("yes").unwrap());
        let (to, asked_as) = questions.answer(&id(41), &yes).unwrap();
        assert!(to.is(&b) && asked_as == id(0));
        assert!(questions.answer(&id(0), &yes).is_none());
        assert_eq!(questions.resolve(&a, &id(0)), Some(id(40)));
        assert_eq!(questions.resolve(&a, &id(0)), None);
        assert!(questions.has_any());
    }

    #[test]
    fn the_question_of_the_next_owner_keeps_its_id_and_answer() {
        let (mut questions, a, b) = (RelayedQuestions::default(), upstream(1), upstream(2));
        questions.ask(&a, id(0), approval("x"), || id(40));
        let again = questions.ask(&b, id(9), approval("x"), unused);
        assert!(again.id == id(40) && again.reply.is_none());
        questions.answer(&id(40), &Ok(to_raw_value("yes").unwrap()));
        let third = questions.ask(&upstream(3), id(2), approval("x"), unused);
        assert_eq!(third.reply.unwrap().unwrap().get(), r#""yes""#);
        assert_eq!(questions.resolve(&b, &id(9)), None);
    }

    #[test]
    fn one_owner_can_ask_the_same_twice() {
        let (mut questions, a) = (RelayedQuestions::default(), upstream(1));
        questions.ask(&a, id(0), approval("x"), || id(40));
        assert_eq!(questions.ask(&a, id(1), approval("x"), || id(41)).id, id(41));
        assert_eq!(questions.ask(&a, id(0), approval("x"), unused).id, id(40));
        assert_eq!(questions.end_turn(&"t".into(), "u"), [id(40), id(41)]);
        assert!(!questions.has_any());
    }
}
