//! The resources of a thread's servers, in the form of the model's resource tools.

use codicil_protocol::{Resource, ResourceTemplate};
use futures_util::future::join_all;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    call::CallError,
    config::ServerConfig,
    connection::ServerConnection,
    limits::RESOURCES_PER_SERVER,
    lists::{list, page},
    pool::ServerPool,
    thread::{ThreadServers, started},
};

/// The reason why resources could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResourceError {
    #[error("cursor can only be used when a server is specified")]
    CursorWithoutServer,
    #[error("{method} failed: {error}")]
    Failed { method: &'static str, error: CallError },
}

/// A list of resources: its method and the member of the result that holds it.
#[derive(Clone, Copy)]
struct ResourceList {
    method: &'static str,
    member: &'static str,
}

const RESOURCES: ResourceList = ResourceList { method: "resources/list", member: "resources" };
const TEMPLATES: ResourceList =
    ResourceList { method: "resources/templates/list", member: "resourceTemplates" };

impl ThreadServers {
    /// Returns one page of a server's resources, or the resources of all servers:
    /// `{resources, server?, nextCursor?}`. Servers that fail are omitted from the latter.
    pub async fn list_resources(
        &self,
        server: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Value, ResourceError> {
        self.list_kind::<Resource>(RESOURCES, server, cursor).await
    }

    /// Returns resource templates in the same way: `{resourceTemplates, server?, nextCursor?}`.
    pub async fn list_resource_templates(
        &self,
        server: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Value, ResourceError> {
        self.list_kind::<ResourceTemplate>(TEMPLATES, server, cursor).await
    }

    /// Reads a resource and returns its parts, as the server sent them.
    pub async fn resource_contents(&self, server: &str, uri: &str) -> Result<Vec<Value>, CallError> {
        let slot = self.slot(server)?;
        contents(&*started(server, &slot).await?, uri).await
    }

    /// Reads a resource: `{server, uri, contents}`.
    pub async fn read_resource(&self, server: &str, uri: &str) -> Result<Value, ResourceError> {
        const METHOD: &str = "resources/read";
        let failed = |error| ResourceError::Failed { method: METHOD, error };
        let slot = self.slot(server).map_err(failed)?;
        let connection = started(server, &slot).await.map_err(failed)?;
        let mut contents = connection.request(METHOD, json!({ "uri": uri })).await.map_err(failed)?;
        let Some(contents) = contents.as_object_mut() else {
            return Err(failed(CallError::Unreadable("the result is not an object".to_owned())));
        };
        contents.insert("server".to_owned(), json!(server));
        contents.insert("uri".to_owned(), json!(uri));
        Ok(Value::Object(std::mem::take(contents)))
    }

    async fn list_kind<T: DeserializeOwned + Serialize>(
        &self,
        kind: ResourceList,
        server: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<Value, ResourceError> {
        match (server, cursor) {
            (Some(server), cursor) => self.list_one::<T>(kind, server, cursor).await,
            (None, None) => Ok(self.list_all::<T>(kind).await),
            (None, Some(_)) => Err(ResourceError::CursorWithoutServer),
        }
    }

    async fn list_one<T: DeserializeOwned + Serialize>(
        &self,
        kind: ResourceList,
        server: &str,
        cursor: Option<&str>,
    ) -> Result<Value, ResourceError> {
        let failed = |error| ResourceError::Failed { method: kind.method, error };
        let slot = self.slot(server).map_err(failed)?;
        let connection = started(server, &slot).await.map_err(failed)?;
        let found = page::<T>(&connection, kind.method, kind.member, cursor).await.map_err(failed)?;
        let entries: Vec<Value> = found.entries.iter().map(|entry| with_server(entry, server)).collect();
        let mut listed = json!({ "server": server, (kind.member): entries });
        if let (Some(next), Some(listed)) = (found.next_cursor, listed.as_object_mut()) {
            listed.insert("nextCursor".to_owned(), json!(next));
        }
        Ok(listed)
    }

    async fn list_all<T: DeserializeOwned + Serialize>(&self, kind: ResourceList) -> Value {
        let lists = self.slots().into_iter().map(|(server, slot)| async move {
            let connection = slot.for_turn().await.filter(|connection| connection.has_resources())?;
            let entries = list::<T>(&connection, kind.method, kind.member, RESOURCES_PER_SERVER).await;
            let entries =
                entries.inspect_err(|error| tracing::debug!(server, %error, "failed to list resources"));
            Some(entries.ok()?.iter().map(|entry| with_server(entry, &server)).collect::<Vec<Value>>())
        });
        let entries: Vec<Value> = join_all(lists).await.into_iter().flatten().flatten().collect();
        json!({ (kind.member): entries })
    }
}

impl ServerPool {
    /// Connects to a server, reads a resource and disconnects. Threads do not share this connection.
    pub async fn resource_contents(
        &self,
        name: &str,
        config: &ServerConfig,
        uri: &str,
    ) -> Result<Vec<Value>, CallError> {
        let connection = self.connect(name, config).await;
        let connection = connection.map_err(|error| CallError::NotStarted(error.describe(name)))?;
        contents(&connection, uri).await
    }
}

async fn contents(connection: &ServerConnection, uri: &str) -> Result<Vec<Value>, CallError> {
    let mut result = connection.request("resources/read", json!({ "uri": uri })).await?;
    match result.get_mut("contents").map(Value::take) {
        Some(Value::Array(contents)) => Ok(contents),
        _ => Err(CallError::Unreadable("the result has no list of contents".to_owned())),
    }
}

fn with_server(entry: &impl Serialize, server: &str) -> Value {
    let mut entry = serde_json::to_value(entry).unwrap_or_default();
    if let Some(entry) = entry.as_object_mut() {
        entry.insert("server".to_owned(), json!(server));
    }
    entry
}
