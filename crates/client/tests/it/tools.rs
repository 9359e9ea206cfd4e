//! Client-side tools.

use codicil_client::{Client, ClientTools, protocol::*};
use serde_json::json;

use crate::{fake::connected, soon};

fn tools() -> ClientTools {
    let schema = json!({ "type": "object", "required": ["city"] });
    let raw = DynamicToolSpec {
        name: "image".into(),
        description: "Draws.".into(),
        input_schema: json!({}),
        defer_loading: Some(true),
    };
    ClientTools::new()
        .add("weather", "Returns the weather.", schema, |arguments| async move {
            match arguments["city"].as_str() {
                Some(city) => Ok(format!("It rains in {city}.")),
                None => Err("which city?".to_owned()),
            }
        })
        .add_raw(raw, |call| async move {
            let image_url = format!("data:{}", call.call_id);
            let content_items = vec![DynamicToolCallOutputContentItem::InputImage { image_url }];
            DynamicToolCallResponse { content_items, success: true }
        })
}

#[tokio::test]
async fn tools_are_offered_to_new_threads() {
    let (mut fake, client) = connected(Client::builder().tools(tools())).await;
    let starting = tokio::spawn(async move { client.start_thread(Default::default()).await });
    let request = fake.expect("thread/start").await;
    let offered = request["params"]["dynamicTools"].as_array().unwrap();
    let names: Vec<_> = offered.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["image", "weather"]);
    assert_eq!(offered[1]["inputSchema"]["required"], json!(["city"]));
    fake.reply(&request, json!({ "thread": { "id": "t" } })).await;
    soon(starting).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_of_the_stable_protocol_offers_no_tools() {
    let (mut fake, client) = connected(Client::builder().tools(tools()).stable_only()).await;
    let starting = tokio::spawn(async move { client.start_thread(Default::default()).await });
    let request = fake.expect("thread/start").await;
    assert_eq!(request["params"].get("dynamicTools"), None);
    fake.reply(&request, json!({ "thread": { "id": "t" } })).await;
    soon(starting).await.unwrap().unwrap();
}

#[tokio::test]
async fn calls_are_answered_with_the_tools_output() {
    let (mut fake, _client) = connected(Client::builder().tools(tools())).await;
    let call = |tool: &str, arguments| json!({ "threadId": "t", "turnId": "u", "callId": "c", "tool": tool, "arguments": arguments });
    let text = |text: &str| json!([{ "type": "inputText", "text": text }]);
    let answer = fake.ask(102, "item/tool/call", call("weather", json!({ "city": "Ulm" }))).await;
    let expected = json!({ "success": true, "contentItems": text("It rains in Ulm.") });
    assert_eq!(answer, json!({ "id": 102, "result": expected }));
    let answer = fake.ask(103, "item/tool/call", call("weather", json!({}))).await;
    assert_eq!(answer["result"], json!({ "success": false, "contentItems": text("which city?") }));
    let answer = fake.ask(104, "item/tool/call", call("image", json!({}))).await;
    assert_eq!(answer["result"]["contentItems"], json!([{ "type": "inputImage", "imageUrl": "data:c" }]));
}
