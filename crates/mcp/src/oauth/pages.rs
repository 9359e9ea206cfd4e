//! What the browser shows at the end.

/// A page: its HTTP status and its words.
pub(super) struct CallbackPage {
    pub(super) status: u16,
    title: &'static str,
    text: String,
}

impl CallbackPage {
    pub(super) fn signed_in(server: &str) -> CallbackPage {
        CallbackPage {
            status: 200,
            title: "Signed in",
            text: format!("You are signed in to {server}. You can close this page."),
        }
    }

    pub(super) fn failed(server: &str, reason: &str) -> CallbackPage {
        let text =
            format!("Signing in to {server} did not work: {reason}. You can close this page and try again.");
        CallbackPage { status: 400, title: "Not signed in", text }
    }

    /// Not the answer that is waited for; the wait goes on.
    pub(super) fn unexpected() -> CallbackPage {
        let text =
            "This address belongs to a sign-in that is not, or no longer, the one under way.".to_owned();
        CallbackPage { status: 400, title: "Unexpected answer", text }
    }

    pub(super) fn not_found() -> CallbackPage {
        CallbackPage {
            status: 404,
            title: "Nothing here",
            text: "There is nothing at this address.".to_owned(),
        }
    }

    pub(super) fn html(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>\
             body{{font-family:system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem;\
             color-scheme:light dark}}</style></head><body><h1>{title}</h1><p>{text}</p></body></html>\n",
            title = self.title,
            text = escaped(&self.text),
        )
    }
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut html, letter| {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            letter => html.push(letter),
        }
        html
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_say_is_text() {
        let html = CallbackPage::failed("s", "<script>alert('x')</script>").html();
        assert!(!html.contains("<script>"), "{html}");
        assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)"), "{html}");
    }
}
