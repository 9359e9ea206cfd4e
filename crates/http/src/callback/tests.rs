//! The listener as a browser sees it.

use codicil_protocol::Secret;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{CallbackListener, CallbackOutcome, CallbackPage, CallbackPort, StateCheck};

const STATE: &str = "s3cret";

fn listen(port: CallbackPort) -> CallbackListener {
    port.listen("/callback".to_owned(), Secret::from(STATE.to_owned()), StateCheck::Always)
}

async fn open() -> (u16, CallbackListener) {
    let port = CallbackPort::bind(0).await.unwrap();
    (port.number().unwrap(), listen(port))
}

/// Sends a request and returns the whole response.
async fn request(port: u16, line: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn the_browser_is_shown_the_result_of_its_visit() {
    let (port, mut listener) = open().await;
    let login = async {
        let visit = listener.next_visit().await;
        assert_eq!(visit.outcome, CallbackOutcome::Code { code: "abc".to_owned().into(), issuer: None });
        visit.show(CallbackPage::signed_in()).await;
    };
    let (response, ()) = tokio::join!(request(port, "GET /callback?code=abc&state=s3cret"), login);
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.contains("referrer-policy: no-referrer\r\n"), "{response}");
    assert!(response.contains("<h1>You are signed in</h1>"), "{response}");
}

#[tokio::test]
async fn requests_that_do_not_belong_to_the_login_do_not_end_it() {
    let (port, mut listener) = open().await;
    let requests = async {
        for (line, status) in [
            ("GET /", "404"),
            ("GET /cancel", "404"),
            ("POST /callback?code=abc&state=s3cret", "404"),
            ("GET /callback", "400"),
            ("GET /callback?code=abc&state=other", "400"),
        ] {
            let response = request(port, line).await;
            assert_eq!(response.get(9..12), Some(status), "{line}: {response}");
        }
    };
    tokio::select! {
        visit = listener.next_visit() => panic!("unexpected outcome: {:?}", visit.outcome),
        () = requests => {}
    }
}

#[tokio::test]
async fn a_second_login_takes_over_a_shared_port() {
    let first = CallbackPort::bind_shared(0).await.unwrap();
    let port = first.number().unwrap();
    let mut listener = listen(first);
    let ended = async move {
        let visit = listener.next_visit().await;
        assert_eq!(visit.outcome, CallbackOutcome::Cancelled);
        visit.show(CallbackPage::cancelled()).await;
    };
    let (second, ()) = tokio::join!(CallbackPort::bind_shared(port), ended);
    assert_eq!(second.unwrap().number().unwrap(), port);
}
