//! Reads what servers report about their models. Each server has its own words for the context window.

use serde_json::Value;

/// An entry of a list of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelEntry {
    pub id: String,
    /// `owned_by`, by which local servers can be recognized.
    pub owner: Option<String>,
    pub window: Option<ContextWindow>,
}

/// A number of tokens that a conversation may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContextWindow {
    pub tokens: u32,
    pub kind: WindowKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowKind {
    /// The window that the server uses.
    Actual,
    /// The most that the model can have. The server may load it with less.
    Limit,
}

/// Reads a list of models: `data` of OpenAI's API, else `models` of Ollama's.
pub(super) fn read_list(list: &Value) -> Option<Vec<ModelEntry>> {
    let entries = list.get("data").or_else(|| list.get("models"))?.as_array()?;
    Some(entries.iter().filter_map(read_entry).collect())
}

fn read_entry(entry: &Value) -> Option<ModelEntry> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    Some(ModelEntry {
        id: text("id").or_else(|| text("model")).or_else(|| text("name"))?.to_owned(),
        owner: text("owned_by").map(str::to_owned),
        window: entry_window(entry),
    })
}

fn entry_window(entry: &Value) -> Option<ContextWindow> {
    // vLLM; LM Studio, for a loaded model; llama.cpp; gateways.
    let actual =
        ["/max_model_len", "/loaded_context_length", "/meta/n_ctx", "/context_length", "/context_window"];
    // LM Studio, for a model that is not loaded; llama.cpp.
    let limits = ["/max_context_length", "/meta/n_ctx_train"];
    let find = |pointers: &[&str]| pointers.iter().find_map(|pointer| tokens(entry.pointer(pointer)));
    window(find(&actual), find(&limits))
}

/// Returns the entry of a model. A server with a single model uses it for requests with any name.
pub(super) fn find_entry<'e>(entries: &'e [ModelEntry], model: &str) -> Option<&'e ModelEntry> {
    let named = entries.iter().find(|entry| is_same_model(&entry.id, model));
    named.or(match entries {
        [only] => Some(only),
        _ => None,
    })
}

/// Reads `/props` of llama.cpp. The window is that of one conversation, not of all slots together.
pub(super) fn llama_cpp_window(props: &Value) -> Option<ContextWindow> {
    let of_slot = tokens(props.pointer("/default_generation_settings/n_ctx"));
    window(of_slot.or_else(|| tokens(props.get("n_ctx"))), None)
}

/// Reads `/api/ps` of Ollama.
pub(super) fn ollama_loaded_window(loaded: &Value, model: &str) -> Option<ContextWindow> {
    let is_wanted = |entry: &&Value| {
        let name = entry.get("model").or_else(|| entry.get("name")).and_then(Value::as_str);
        name.is_some_and(|name| is_same_model(name, model))
    };
    let entry = loaded.get("models")?.as_array()?.iter().find(is_wanted)?;
    window(tokens(entry.get("context_length")), None)
}

/// Reads `/api/show` of Ollama: a window set in the model file, else the most that the model can have.
pub(super) fn ollama_window(shown: &Value) -> Option<ContextWindow> {
    let parameters = shown.get("parameters").and_then(Value::as_str).unwrap_or_default();
    let set = parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx"));
    let set = set.and_then(|number| number.trim().parse().ok());
    let facts = shown.get("model_info").and_then(Value::as_object);
    // The key begins with the model's architecture.
    let limit = facts.into_iter().flatten().find(|(key, _)| key.ends_with(".context_length"));
    window(set, limit.and_then(|(_, value)| tokens(Some(value))))
}

/// Reads `/model/info` of LiteLLM.
pub(super) fn litellm_window(list: &Value, model: &str) -> Option<ContextWindow> {
    let is_wanted = |entry: &&Value| entry.get("model_name").and_then(Value::as_str) == Some(model);
    let entry = list.get("data")?.as_array()?.iter().find(is_wanted)?;
    let most =
        entry.pointer("/model_info/max_input_tokens").or_else(|| entry.pointer("/model_info/max_tokens"));
    window(tokens(most), None)
}

/// Compares names as Ollama does: `latest` is the default tag.
fn is_same_model(one: &str, other: &str) -> bool {
    let plain = |name| str::strip_suffix(name, ":latest").unwrap_or(name).to_owned();
    one == other || plain(one) == plain(other)
}

fn window(actual: Option<u32>, limit: Option<u32>) -> Option<ContextWindow> {
    match (actual, limit) {
        (Some(tokens), _) => Some(ContextWindow { tokens, kind: WindowKind::Actual }),
        (None, Some(tokens)) => Some(ContextWindow { tokens, kind: WindowKind::Limit }),
        (None, None) => None,
    }
}

/// Reads a positive number. 0 stands for "not set" in some servers.
fn tokens(value: Option<&Value>) -> Option<u32> {
    let number = value?.as_u64().filter(|number| *number > 0)?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ACTUAL: WindowKind = WindowKind::Actual;
    const LIMIT: WindowKind = WindowKind::Limit;

    fn found(window: Option<ContextWindow>) -> Option<(u32, WindowKind)> {
        window.map(|window| (window.tokens, window.kind))
    }

    #[test]
    fn lists_of_models_report_windows_under_different_names() {
        let check = |entry: Value, expected| {
            let list = read_list(&json!({ "object": "list", "data": [entry] })).unwrap();
            assert_eq!(found(list[0].window), expected, "{entry}");
        };
        check(json!({ "id": "m", "owned_by": "vllm", "max_model_len": 32768 }), Some((32768, ACTUAL)));
        check(
            json!({ "id": "m", "owned_by": "llamacpp", "meta": { "n_ctx_train": 131072 } }),
            Some((131072, LIMIT)),
        );
        check(json!({ "id": "m", "max_context_length": 8192 }), Some((8192, LIMIT)));
        check(
            json!({ "id": "m", "loaded_context_length": 4096, "max_context_length": 8192 }),
            Some((4096, ACTUAL)),
        );
        check(json!({ "id": "m", "context_length": 200000 }), Some((200000, ACTUAL)));
        check(json!({ "id": "m", "max_model_len": 0 }), None);
        check(json!({ "id": "m", "max_model_len": "many" }), None);
        check(json!({ "id": "m" }), None);
    }

    #[test]
    fn ollamas_own_list_is_read() {
        let list =
            json!({ "models": [{ "name": "qwen3:8b", "model": "qwen3:8b" }, { "name": "llama3:latest" }] });
        let entries = read_list(&list).unwrap();
        assert_eq!(find_entry(&entries, "llama3").unwrap().id, "llama3:latest");
        assert_eq!(find_entry(&entries, "qwen3:8b").unwrap().id, "qwen3:8b");
        assert_eq!(find_entry(&entries, "qwen3"), None);
        assert_eq!(read_list(&json!({ "error": "no" })), None);
    }

    #[test]
    fn a_single_model_answers_to_every_name() {
        let entries = read_list(&json!({ "data": [{ "id": "/models/tiny.gguf" }] })).unwrap();
        assert_eq!(find_entry(&entries, "tiny").unwrap().id, "/models/tiny.gguf");
    }

    #[test]
    fn llama_cpp_reports_the_window_of_a_slot() {
        let props =
            json!({ "default_generation_settings": { "n_ctx": 2048, "params": {} }, "total_slots": 4 });
        assert_eq!(found(llama_cpp_window(&props)), Some((2048, ACTUAL)));
        assert_eq!(llama_cpp_window(&json!({})), None);
    }

    #[test]
    fn ollama_reports_loaded_models_and_model_files() {
        let loaded =
            json!({ "models": [{ "name": "qwen3:8b", "model": "qwen3:8b", "context_length": 16384 }] });
        assert_eq!(found(ollama_loaded_window(&loaded, "qwen3:8b")), Some((16384, ACTUAL)));
        assert_eq!(ollama_loaded_window(&loaded, "other"), None);
        let facts = json!({ "general.architecture": "qwen3", "qwen3.context_length": 40960 });
        let shown = json!({ "parameters": "stop \"x\"\nnum_ctx                8192", "model_info": facts });
        assert_eq!(found(ollama_window(&shown)), Some((8192, ACTUAL)));
        let shown = json!({ "model_info": facts });
        assert_eq!(found(ollama_window(&shown)), Some((40960, LIMIT)));
    }

    #[test]
    fn litellm_reports_what_its_configuration_says() {
        let list = json!({ "data": [
            { "model_name": "other", "model_info": { "max_input_tokens": 1 } },
            { "model_name": "mine", "model_info": { "max_input_tokens": 64000 } },
        ] });
        assert_eq!(found(litellm_window(&list, "mine")), Some((64000, ACTUAL)));
        assert_eq!(
            litellm_window(&json!({ "data": [{ "model_name": "mine", "model_info": {} }] }), "mine"),
            None
        );
    }
}
