//! What an agent can be given beyond its tools: skills, plugins, apps.
//!
//! [`Extensions`] holds the three of a process. [`Skills`] are instructions in files, found around a working
//! directory; [`Plugins`] bundle skills, MCP servers and apps and are installed from marketplaces; [`Apps`]
//! are connectors of a ChatGPT account. [`MessageMentions`] says what of it a message calls for.
//!
//! What models are told of all this is put into words by `codicil-prompts`. Skills and plugins block on the
//! disk; a server calls them where that is allowed. Apps wait for the network.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod extensions;
mod mentions;

mod apps;
mod plugins;
mod skills;

mod small_file;

pub use {
    apps::{
        AccountFuture, AccountSource, Apps, AppsError, AuthAccount, ChatgptAccount, NoAccount, RefetchApps,
    },
    extensions::Extensions,
    mentions::MessageMentions,
    plugins::{
        InstalledPlugin, PluginContents, PluginError, PluginId, PluginInstallation, PluginManifest,
        PluginRead, Plugins, error::RemoteError,
    },
    skills::{FoundSkills, Skill, SkillWatch, Skills, SkillsError},
};
