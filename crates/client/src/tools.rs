//! Client-side tools: offered to the model with `thread/start`, called with `item/tool/call`.

use std::{collections::BTreeMap, fmt, pin::Pin, sync::Arc};

use codicil_protocol::{
    DynamicToolCallOutputContentItem, DynamicToolCallParams, DynamicToolCallResponse, DynamicToolSpec,
};
use serde_json::Value;

/// A set of client-side tools.
///
/// ```
/// use codicil_client::{Client, ClientTools};
/// use serde_json::json;
///
/// let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
/// let tools = ClientTools::new().add("weather", "Returns the weather in a city.", schema, |arguments| async move {
///     match arguments["city"].as_str() {
///         Some(city) => Ok(format!("It rains in {city}.")),
///         None => Err("which city?".to_owned()),
///     }
/// });
/// let builder = Client::builder().tools(tools);
/// ```
#[derive(Clone, Default)]
pub struct ClientTools(BTreeMap<String, ClientTool>);

#[derive(Clone)]
struct ClientTool {
    spec: DynamicToolSpec,
    run: ToolFunction,
}

type ToolFunction = Arc<
    dyn Fn(DynamicToolCallParams) -> Pin<Box<dyn Future<Output = DynamicToolCallResponse> + Send>>
        + Send
        + Sync,
>;

impl ClientTools {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool that returns text. The model sees an error as a failed call, and the turn continues.
    pub fn add<F, R>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
        run: F,
    ) -> Self
    where
        F: Fn(Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, String>> + Send + 'static,
    {
        let spec = DynamicToolSpec {
            name: name.into(),
            description: description.into(),
            input_schema,
            defer_loading: None,
        };
        self.add_raw(spec, move |call| {
            let answer = run(call.arguments);
            async move {
                match answer.await {
                    Ok(text) => text_response(text, true),
                    Err(text) => text_response(text, false),
                }
            }
        })
    }

    /// Adds a tool that receives the whole call and returns the whole response. It replaces a tool of the same name.
    pub fn add_raw<F, R>(mut self, spec: DynamicToolSpec, run: F) -> Self
    where
        F: Fn(DynamicToolCallParams) -> R + Send + Sync + 'static,
        R: Future<Output = DynamicToolCallResponse> + Send + 'static,
    {
        let run: ToolFunction = Arc::new(move |call| Box::pin(run(call)));
        self.0.insert(spec.name.clone(), ClientTool { spec, run });
        self
    }

    /// Returns the tools in the form of `dynamicTools` of `thread/start`.
    /// [`Client::start_thread`](crate::Client::start_thread) sends them automatically.
    pub fn specs(&self) -> Vec<DynamicToolSpec> {
        self.0.values().map(|tool| tool.spec.clone()).collect()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) async fn call(&self, call: DynamicToolCallParams) -> DynamicToolCallResponse {
        match self.0.get(&call.tool) {
            Some(tool) => (tool.run)(call).await,
            None => unsupported(&call.tool),
        }
    }
}

impl fmt::Debug for ClientTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Returns the response to a call of an unknown tool.
pub(crate) fn unsupported(tool: &str) -> DynamicToolCallResponse {
    text_response(format!("Unsupported dynamic tool: {tool}"), false)
}

fn text_response(text: String, success: bool) -> DynamicToolCallResponse {
    DynamicToolCallResponse {
        content_items: vec![DynamicToolCallOutputContentItem::InputText { text }],
        success,
    }
}
