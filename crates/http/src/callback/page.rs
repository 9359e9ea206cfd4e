//! The pages that a browser shows after it was redirected to the callback address.

/// An HTML page with its HTTP status.
pub struct CallbackPage {
    pub(super) status: u16,
    title: &'static str,
    text: String,
}

impl CallbackPage {
    /// Confirms the login to the account.
    pub fn signed_in() -> Self {
        let text = "You can close this window and go back to where you came from.";
        Self { status: 200, title: "You are signed in", text: text.to_owned() }
    }

    /// Confirms the login to the named server.
    pub fn signed_in_to(server: &str) -> Self {
        let text = format!("You are signed in to {server}. You can close this page.");
        Self { status: 200, title: "Signed in", text }
    }

    /// Explains why the login failed. `reason` has no full stop.
    pub fn failed(reason: &str) -> Self {
        let text = format!("{reason}. You can try again from the program.");
        Self { status: 400, title: "Signing in failed", text }
    }

    /// Confirms that another program took over the port for its own login.
    pub fn cancelled() -> Self {
        Self { status: 200, title: "The sign-in was cancelled", text: "Login cancelled".to_owned() }
    }

    /// Rejects a request that does not belong to the pending login, which continues.
    pub fn unexpected() -> Self {
        let text =
            "This address belongs to another sign-in, perhaps an older one. The current one continues.";
        Self { status: 400, title: "Unexpected request", text: text.to_owned() }
    }

    /// Answers requests for any other path.
    pub(super) fn not_found() -> Self {
        Self { status: 404, title: "Nothing here", text: "There is no such page.".to_owned() }
    }

    pub(super) fn html(&self) -> String {
        let title = self.title;
        let text = escape(&self.text);
        format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><style>body{{font:1.1rem/1.5 system-ui,sans-serif;\
             max-width:34rem;margin:18vh auto;padding:0 1.5rem;color-scheme:light dark}}</style></head>\
             <body><h1>{title}</h1><p>{text}</p></body></html>\n"
        )
    }
}

/// Escapes text for HTML. Reasons and server names come from outside.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_server_names_are_escaped() {
        let script = "<script>alert('x')</script>";
        for page in [CallbackPage::failed(script), CallbackPage::signed_in_to(script)] {
            let html = page.html();
            assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"), "{html}");
            assert!(!html.contains("<script"), "{html}");
        }
    }
}
