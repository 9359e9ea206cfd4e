//! The pages that a browser shows when it comes back: they tell the person what happened.

/// What a page says.
pub(crate) struct LoginPage {
    pub status: u16,
    title: &'static str,
    text: String,
}

impl LoginPage {
    pub fn signed_in() -> Self {
        let text = "You can close this window and go back to where you came from.";
        Self { status: 200, title: "You are signed in", text: text.to_owned() }
    }

    /// The sign-in is over, and this is why.
    pub fn failed(reason: &str) -> Self {
        Self {
            status: 400,
            title: "Signing in failed",
            text: format!("{reason}. You can try again from the program."),
        }
    }

    /// Somebody wants something else to be signed in to.
    pub fn cancelled() -> Self {
        Self { status: 200, title: "The sign-in was cancelled", text: "Login cancelled".to_owned() }
    }

    /// The sign-in goes on; this visit has nothing to do with it.
    pub fn stray() -> Self {
        let text = "This address belongs to another sign-in, perhaps an older one. The one that is under way goes on.";
        Self { status: 400, title: "Nothing to do here", text: text.to_owned() }
    }

    pub fn not_found() -> Self {
        Self { status: 404, title: "Nothing here", text: "There is no such page.".to_owned() }
    }

    pub fn html(&self) -> String {
        let (title, text) = (self.title, escape(&self.text));
        format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><style>body{{font:1.1rem/1.5 system-ui,sans-serif;\
             max-width:34rem;margin:18vh auto;padding:0 1.5rem;color-scheme:light dark}}</style></head>\
             <body><h1>{title}</h1><p>{text}</p></body></html>\n"
        )
    }
}

/// Reasons come from outside and must stay text.
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
    fn reasons_from_outside_stay_text() {
        let page = LoginPage::failed("<script>alert('x')</script>").html();
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"), "{page}");
        assert!(!page.contains("<script"), "{page}");
    }
}
