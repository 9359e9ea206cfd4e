//! Skills, plugins and apps, which extend an agent beyond its built-in tools.
//!
//! [`Extensions`] holds all three for a process. [`Skills`] are instructions in files, found around a working
//! directory. [`Plugins`] bundle skills, MCP servers and apps and are installed from marketplaces. [`Apps`]
//! are connectors of a ChatGPT account. [`MessageMentions`] parses the mentions of skills, plugins and
//! apps in a message.
//!
//! `codicil-prompts` writes the text that describes extensions to models. Skills and plugins use blocking disk
//! I/O, so a server calls them on blocking threads. Apps use asynchronous network I/O.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod extensions;
mod mentions;

mod apps;
mod marketplaces;
mod plugins;
mod skills;

mod account;
mod backend;
mod small_file;

#[cfg(fuzzing)]
pub mod fuzzing;

pub use {
    account::{AccountFuture, AccountSource, AuthAccount, ChatgptAccount, NoAccount},
    apps::{Apps, RefetchApps, merge::app_slug},
    backend::BackendError,
    extensions::Extensions,
    marketplaces::{MarketplaceError, Marketplaces},
    mentions::MessageMentions,
    plugins::{
        InstalledPlugin, PluginContents, PluginError, PluginId, PluginInstallation, PluginManifest,
        PluginRead, Plugins, error::RemoteError, featured::FeaturedPlugins,
    },
    skills::{FoundSkills, Skill, SkillWatch, Skills, SkillsError},
};
