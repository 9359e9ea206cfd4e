//! Questions with fields: free questions of the agent, and forms of MCP servers.

use codicil_client::protocol::{
    McpElicitationConstOption, McpElicitationEnumSchema, McpElicitationMultiSelectEnumSchema,
    McpElicitationPrimitiveSchema, McpElicitationSchema, McpElicitationSingleSelectEnumSchema,
    McpElicitationStringFormat, McpServerElicitationRequest, McpServerElicitationRequestParams,
    ToolRequestUserInputParams, ToolRequestUserInputQuestion,
};
use maud::{Markup, html};

use super::{
    items::safe_link,
    question_cards::{AnswerButton, buttons},
};
use crate::render::text::{visible, visible_plain};

pub fn user_input(params: &ToolRequestUserInputParams) -> Markup {
    html! {
        @for (index, question) in params.questions.iter().enumerate() {
            // The card has the first question as its title.
            (agent_question(question, if index == 0 { "visually-hidden" } else { "" }))
        }
        (buttons(&[AnswerButton::new("submit", "Answer", "primary"), AnswerButton::new("decline", "Decline", "danger")]))
    }
}

fn agent_question(question: &ToolRequestUserInputQuestion, title_class: &str) -> Markup {
    let kind = if question.is_secret { "password" } else { "text" };
    html! {
        fieldset {
            legend class=(title_class) { (visible(&question.question)) }
            @if let Some(options) = &question.options {
                @for option in options {
                    label.option {
                        input type="radio" name={ "option." (question.id) } value=(option.label);
                        " " (visible(&option.label))
                        @if !option.description.is_empty() { span.meta { " " (visible(&option.description)) } }
                    }
                }
            }
            @if question.options.is_none() || question.is_other {
                label {
                    @if question.options.is_some() { "Other answer" } @else { "Answer" }
                    input type=(kind) name={ "text." (question.id) } autocomplete="off";
                }
            }
        }
    }
}

pub fn elicitation(params: &McpServerElicitationRequestParams) -> Markup {
    match &params.request {
        McpServerElicitationRequest::Url { message, url, .. } => html! {
            p.reason { (visible(message)) }
            p { (safe_link(url)) }
            (buttons(&answers("Done")))
        },
        McpServerElicitationRequest::Form { message, requested_schema, .. } => {
            let is_approval = requested_schema.properties.is_empty();
            html! {
                p.reason { (visible(message)) }
                (form_fields(requested_schema))
                (buttons(&answers(if is_approval { "Approve" } else { "Submit" })))
            }
        }
    }
}

fn answers(accept: &'static str) -> Vec<AnswerButton> {
    let mut found = vec![AnswerButton::new("accept", accept, "primary")];
    if accept == "Approve" {
        found.push(AnswerButton::new("acceptForSession", "Approve for session", ""));
    }
    found.push(AnswerButton::new("decline", "Decline", "danger"));
    found.push(AnswerButton::new("cancel", "Cancel turn", ""));
    found
}

fn form_fields(schema: &McpElicitationSchema) -> Markup {
    let is_required = |name: &String| schema.required.iter().flatten().any(|required| required == name);
    let (required, optional): (Vec<_>, Vec<_>) =
        schema.properties.iter().partition(|(name, _)| is_required(name));
    html! {
        div.fields {
            @for (name, property) in required { (form_field(name, property, true)) }
            @for (name, property) in optional { (form_field(name, property, false)) }
        }
    }
}

fn form_field(name: &str, property: &McpElicitationPrimitiveSchema, is_required: bool) -> Markup {
    use McpElicitationPrimitiveSchema as P;
    let field = format!("field.{name}");
    match property {
        P::Boolean(field_schema) => html! {
            label.option {
                input type="checkbox" name=(field) checked[field_schema.default == Some(true)];
                " " (label(name, field_schema.title.as_deref(), field_schema.description.as_deref()))
            }
        },
        P::Number(number) => html! {
            label {
                (label(name, number.title.as_deref(), number.description.as_deref()))
                input type="number" step="any" name=(field) min=[number.minimum] max=[number.maximum] value=[number.default] required[is_required];
            }
        },
        P::String(text) => {
            let kind = match text.format {
                Some(McpElicitationStringFormat::Email) => "email",
                Some(McpElicitationStringFormat::Uri) => "url",
                Some(McpElicitationStringFormat::Date) => "date",
                _ => "text",
            };
            html! {
                label {
                    (label(name, text.title.as_deref(), text.description.as_deref()))
                    input type=(kind) name=(field) minlength=[text.min_length] maxlength=[text.max_length] value=[text.default.as_deref()] required[is_required];
                }
            }
        }
        P::Enum(choice) => choice_field(name, &field, choice, is_required),
    }
}

/// The options of a choice, with the values that are selected at first.
struct Choice<'a> {
    title: Option<&'a str>,
    description: Option<&'a str>,
    /// Values and labels.
    options: Vec<(&'a str, &'a str)>,
    selected: Vec<&'a str>,
    is_multiple: bool,
}

fn choice_field(name: &str, field: &str, schema: &McpElicitationEnumSchema, is_required: bool) -> Markup {
    let choice = Choice::of(schema);
    if choice.is_multiple {
        return multiple_choice(name, field, &choice);
    }
    html! {
        label {
            (label(name, choice.title, choice.description))
            select name=(field) required[is_required] {
                @if !is_required { option value="" { "—" } }
                @for (value, text) in &choice.options {
                    option value=(value) selected[choice.selected.contains(value)] { (visible_plain(text)) }
                }
            }
        }
    }
}

fn multiple_choice(name: &str, field: &str, choice: &Choice<'_>) -> Markup {
    html! {
        fieldset {
            legend { (label(name, choice.title, choice.description)) }
            @for (value, text) in &choice.options {
                label.option {
                    input type="checkbox" name=(field) value=(value) checked[choice.selected.contains(value)];
                    " " (visible_plain(text))
                }
            }
        }
    }
}

impl<'a> Choice<'a> {
    fn of(schema: &'a McpElicitationEnumSchema) -> Self {
        use McpElicitationEnumSchema as E;
        use McpElicitationMultiSelectEnumSchema as Multi;
        use McpElicitationSingleSelectEnumSchema as Single;
        match schema {
            E::SingleSelectEnum(Single::UntitledSingleSelectEnum(one)) => {
                Self::new(&one.title, &one.description, plain(&one.values), one.default.as_slice(), false)
            }
            E::SingleSelectEnum(Single::TitledSingleSelectEnum(one)) => {
                Self::new(&one.title, &one.description, titled(&one.one_of), one.default.as_slice(), false)
            }
            E::MultiSelectEnum(Multi::UntitledMultiSelectEnum(many)) => {
                let selected = many.default.as_deref().unwrap_or_default();
                Self::new(&many.title, &many.description, plain(&many.items.values), selected, true)
            }
            E::MultiSelectEnum(Multi::TitledMultiSelectEnum(many)) => {
                let selected = many.default.as_deref().unwrap_or_default();
                Self::new(&many.title, &many.description, titled(&many.items.any_of), selected, true)
            }
            E::LegacyTitledEnum(one) => {
                let names = one.enum_names.as_deref().unwrap_or_default();
                let label = |(index, value): (usize, &'a String)| {
                    (value.as_str(), names.get(index).unwrap_or(value).as_str())
                };
                let options = one.values.iter().enumerate().map(label).collect();
                Self::new(&one.title, &one.description, options, one.default.as_slice(), false)
            }
        }
    }

    fn new(
        title: &'a Option<String>,
        description: &'a Option<String>,
        options: Vec<(&'a str, &'a str)>,
        selected: &'a [String],
        is_multiple: bool,
    ) -> Self {
        Self {
            title: title.as_deref(),
            description: description.as_deref(),
            options,
            selected: selected.iter().map(String::as_str).collect(),
            is_multiple,
        }
    }
}

fn plain(values: &[String]) -> Vec<(&str, &str)> {
    values.iter().map(|value| (value.as_str(), value.as_str())).collect()
}

fn titled(options: &[McpElicitationConstOption]) -> Vec<(&str, &str)> {
    options.iter().map(|option| (option.value.as_str(), option.title.as_str())).collect()
}

fn label(name: &str, title: Option<&str>, description: Option<&str>) -> Markup {
    html! {
        span { (visible(title.unwrap_or(name))) }
        @if let Some(description) = description { " " span.description { (visible(description)) } }
    }
}
