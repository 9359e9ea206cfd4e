//! `command/exec/outputDelta`, written by hand: output goes from the pipe into the message in one step, base64
//! included. The tests hold it against what the type itself writes.

use base64::{Engine, engine::general_purpose::STANDARD};
use codicil_protocol::{CommandExecOutputDelta, Frame, NotificationMethod};

/// Which of the two streams of a command. A terminal has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandStream {
    Stdout,
    Stderr,
}

/// Whether more of the stream may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamCap {
    Open,
    Reached,
}

/// The beginning of every message about one stream of one command.
pub struct DeltaHead(Vec<u8>);

impl DeltaHead {
    pub fn new(process_id: &str, stream: CommandStream) -> Self {
        let stream = match stream {
            CommandStream::Stdout => "stdout",
            CommandStream::Stderr => "stderr",
        };
        let (method, id) = (CommandExecOutputDelta::NAME, serde_json::Value::from(process_id));
        let head = format!(
            r#"{{"method":"{method}","params":{{"processId":{id},"stream":"{stream}","deltaBase64":""#
        );
        Self(head.into_bytes())
    }

    pub fn frame(&self, bytes: &[u8], cap: StreamCap) -> Frame {
        let tail: &[u8] = match cap {
            StreamCap::Open => br#"","capReached":false}}"#,
            StreamCap::Reached => br#"","capReached":true}}"#,
        };
        let encoded = base64::encoded_len(bytes.len(), true).unwrap_or_default();
        let mut message = Vec::with_capacity(self.0.len() + encoded + tail.len());
        message.extend_from_slice(&self.0);
        message.resize(self.0.len() + encoded, 0);
        let place = message.get_mut(self.0.len()..).unwrap_or_default();
        STANDARD.encode_slice(bytes, place).expect("the place was made as long as the text will be");
        message.extend_from_slice(tail);
        Frame::written::<CommandExecOutputDelta>(message)
    }
}

#[cfg(test)]
mod tests {
    use codicil_protocol::{CommandExecOutputDeltaNotification, CommandExecOutputStream};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_the_type_writes(id in ".*", bytes: Vec<u8>, is_stdout: bool, is_last: bool) {
            let (stream, wire) = match is_stdout {
                true => (CommandStream::Stdout, CommandExecOutputStream::Stdout),
                false => (CommandStream::Stderr, CommandExecOutputStream::Stderr),
            };
            let cap = if is_last { StreamCap::Reached } else { StreamCap::Open };
            let expected = Frame::notification::<CommandExecOutputDelta>(&CommandExecOutputDeltaNotification {
                process_id: id.clone(),
                stream: wire,
                delta_base64: STANDARD.encode(&bytes),
                cap_reached: is_last,
            });
            let written = DeltaHead::new(&id, stream).frame(&bytes, cap);
            prop_assert_eq!(written.bytes(), expected.bytes());
            prop_assert_eq!(written.method(), expected.method());
        }
    }
}
