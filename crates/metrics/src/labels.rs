//! The values of labels. A new value is a line here; nothing else makes labels.

use crate::LabelSet;

/// Declares an enum whose variants are label sets.
macro_rules! label_set {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $labels:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            pub const COUNT: usize = [$(Self::$variant),*].len();
        }

        impl LabelSet for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn number(self) -> usize {
                self as usize
            }

            fn labels(self) -> &'static [(&'static str, &'static str)] {
                match self {
                    $(Self::$variant => &$labels,)*
                }
            }
        }
    };
}

label_set! {
    /// How a request of a client ended.
    RequestEnd {
        Answered = [("outcome", "ok")],
        Failed = [("outcome", "error")],
    }
}

label_set! {
    /// Why a request was refused as overload.
    OverloadReason {
        /// The client has too many open requests.
        OpenRequests = [("reason", "open_requests")],
        /// The client does not read its messages.
        UnreadMessages = [("reason", "unread_messages")],
        /// The mailbox of the thread is full, or commands or watches are at their limit.
        Busy = [("reason", "busy")],
    }
}

label_set! {
    /// How a turn ended, and why.
    TurnEnd {
        Completed = [("end", "completed"), ("cause", "done")],
        /// A client sent `turn/interrupt`.
        InterruptedByClient = [("end", "interrupted"), ("cause", "client")],
        /// The thread was unloaded, compacted, reviewed or rolled back, or the server stopped.
        InterruptedByThread = [("end", "interrupted"), ("cause", "thread")],
        /// A user answered an approval by cancelling the turn.
        InterruptedByAnswer = [("end", "interrupted"), ("cause", "answer")],
        /// The turn of an earlier process could not continue.
        InterruptedByRestart = [("end", "interrupted"), ("cause", "restart")],
        FailedContextWindow = [("end", "failed"), ("cause", "context_window")],
        /// A usage limit, a rate limit or a budget.
        FailedLimit = [("end", "failed"), ("cause", "limit")],
        FailedUnauthorized = [("end", "failed"), ("cause", "unauthorized")],
        /// The provider rejected the request, or a policy of the provider did.
        FailedRejected = [("end", "failed"), ("cause", "rejected")],
        /// The provider failed, or is overloaded.
        FailedProvider = [("end", "failed"), ("cause", "provider")],
        /// The provider could not be reached, or its response broke off.
        FailedConnection = [("end", "failed"), ("cause", "connection")],
        /// The records of the turn could not be stored.
        FailedStore = [("end", "failed"), ("cause", "store")],
        FailedOther = [("end", "failed"), ("cause", "other")],
    }
}

label_set! {
    /// The kinds of tokens that providers count.
    TokenKind {
        /// Everything sent to the model, cached tokens included.
        Input = [("kind", "input")],
        CachedInput = [("kind", "cached_input")],
        /// Everything that the model wrote, reasoning included.
        Output = [("kind", "output")],
        Reasoning = [("kind", "reasoning")],
    }
}

label_set! {
    /// How a model request ended. Retries of one request count separately.
    ModelRequestEnd {
        Completed = [("outcome", "completed")],
        Failed = [("outcome", "failed")],
        /// The turn was interrupted, or new input ended the response.
        Cancelled = [("outcome", "cancelled")],
    }
}

label_set! {
    /// Who provides the tool of a call, and how the call ended.
    ToolCallEnd {
        BuiltinOk = [("kind", "builtin"), ("outcome", "ok")],
        BuiltinFailed = [("kind", "builtin"), ("outcome", "failed")],
        BuiltinCancelled = [("kind", "builtin"), ("outcome", "cancelled")],
        McpOk = [("kind", "mcp"), ("outcome", "ok")],
        McpFailed = [("kind", "mcp"), ("outcome", "failed")],
        McpCancelled = [("kind", "mcp"), ("outcome", "cancelled")],
        /// A tool that the client runs.
        DynamicOk = [("kind", "dynamic"), ("outcome", "ok")],
        DynamicFailed = [("kind", "dynamic"), ("outcome", "failed")],
        DynamicCancelled = [("kind", "dynamic"), ("outcome", "cancelled")],
        /// A call of a tool that was not offered.
        Unknown = [("kind", "unknown"), ("outcome", "failed")],
    }
}

label_set! {
    /// The result of an append to the records of a thread.
    AppendEnd {
        Stored = [("outcome", "stored")],
        /// Another writer has extended the thread.
        Overtaken = [("outcome", "overtaken")],
        Failed = [("outcome", "failed")],
    }
}

label_set! {
    /// What became of a span of a trace.
    SpanEnd {
        Exported = [("outcome", "exported")],
        /// The queue was full.
        Dropped = [("outcome", "dropped")],
        /// The collector did not take it.
        Failed = [("outcome", "failed")],
    }
}

label_set! {
    /// The direction of relayed messages between nodes.
    RelayDirection {
        ToOwner = [("direction", "to_owner")],
        ToClient = [("direction", "to_client")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<L: LabelSet>() {
        for (number, labels) in L::ALL.iter().enumerate() {
            assert_eq!(labels.number(), number, "{labels:?}");
        }
        let mut values: Vec<_> = L::ALL.iter().map(|labels| labels.labels()).collect();
        values.sort_unstable();
        values.dedup();
        assert_eq!(values.len(), L::ALL.len(), "two values of a set have the same labels");
    }

    #[test]
    fn values_have_consecutive_numbers_and_labels_of_their_own() {
        check::<RequestEnd>();
        check::<OverloadReason>();
        check::<TurnEnd>();
        check::<TokenKind>();
        check::<ModelRequestEnd>();
        check::<ToolCallEnd>();
        check::<AppendEnd>();
        check::<SpanEnd>();
        check::<RelayDirection>();
    }
}
