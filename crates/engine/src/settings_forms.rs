//! The settings of a thread in the forms that leave the engine: on the wire and on disk.
//!
//! On disk they are a versioned snapshot within the store's settings record, together with the context that the model
//! has been shown. A snapshot is read field by field: one that cannot be read is reported and replaced, and the others
//! are kept. Golden files of every version are in `tests/golden`; they must load for ever.

use codicil_prompts::ContextSnapshot;
use codicil_protocol::{
    AskForApproval, CollaborationMode, ModeKind, MultiAgentMode, Personality, ServiceTier, Settings,
    ThreadSettings,
};
use codicil_store::StoredSettings;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{profiles::ThreadProfile, settings::TurnSettings};

/// The version of the snapshots that are written. Version 1 is the same without a version in its envelope. Additions
/// that older releases may ignore need no new version.
const SNAPSHOT_VERSION: u32 = 2;

impl TurnSettings {
    /// Returns the settings as `thread/settings/updated` and the thread responses show them.
    pub fn into_wire(self) -> ThreadSettings {
        let mut collaboration_mode = self.collaboration_mode.unwrap_or_else(|| CollaborationMode {
            mode: ModeKind::Default,
            settings: Settings {
                model: self.model.clone(),
                reasoning_effort: self.effort.clone(),
                developer_instructions: None,
            },
        });
        let instructions = &mut collaboration_mode.settings.developer_instructions;
        if instructions.is_none() {
            *instructions =
                codicil_prompts::shown_mode_instructions(&collaboration_mode.mode).map(str::to_owned);
        }
        // The clients that know this type are of the 0.166 generation, which does not have `on-failure`.
        let approval_policy = match self.approval_policy {
            AskForApproval::OnFailure => AskForApproval::OnRequest,
            policy => policy,
        };
        ThreadSettings {
            disabled_plugin_ids: Vec::new(),
            cwd: self.cwd.to_string_lossy().into_owned(),
            approval_policy,
            approvals_reviewer: self.approvals_reviewer.into_later(),
            sandbox_policy: self.sandbox,
            active_permission_profile: self.profile.as_ref().map(ThreadProfile::active),
            model: self.model,
            model_provider: self.provider,
            // `priority` is the later name of `fast`.
            service_tier: self.service_tier.map(|tier| match tier {
                ServiceTier::Fast => ServiceTier::Unrecognized("priority".to_owned()),
                tier => tier,
            }),
            effort: self.effort,
            summary: self.summary,
            collaboration_mode,
            multi_agent_mode: MultiAgentMode::ExplicitRequestOnly,
            personality: self.personality,
        }
    }
}

/// The content of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredContext {
    pub settings: TurnSettings,
    /// The context that the model has been shown.
    #[serde(rename = "told")]
    pub context: Option<ContextSnapshot>,
    /// The personality with which the thread began.
    #[serde(rename = "tone")]
    pub first_personality: Option<Personality>,
    /// The base instructions, if they are not those that the thread was started with.
    #[serde(default, rename = "baseInstructions", skip_serializing_if = "Option::is_none")]
    pub base_instructions: Option<String>,
    /// The developer instructions, if they are not those that the thread was started with.
    #[serde(default, rename = "developerInstructions", skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
}

/// A snapshot as far as it could be read.
pub(crate) struct RecalledContext {
    pub stored: StoredContext,
    /// Whether the snapshot has every field in a form that this version knows.
    pub is_complete: bool,
    /// The names of the fields that could not be read.
    pub unreadable: Vec<String>,
}

impl StoredContext {
    /// Returns the record content. The model and effort are repeated outside the snapshot, where every version finds
    /// them.
    pub fn to_stored(&self) -> StoredSettings {
        StoredSettings {
            model: Some(self.settings.model.clone()),
            effort: self.settings.effort.clone(),
            version: SNAPSHOT_VERSION,
            snapshot: serde_json::to_value(self).unwrap_or_default(),
        }
    }

    /// Reads a snapshot, taking missing and unreadable fields from `fallback`. `None` if there is no snapshot, as in
    /// imported threads.
    pub fn read(stored: &StoredSettings, fallback: &Self) -> Option<RecalledContext> {
        let snapshot = stored.snapshot.as_object()?;
        if let Ok(whole) = serde_json::from_value(stored.snapshot.clone()) {
            return Some(RecalledContext { stored: whole, is_complete: true, unreadable: Vec::new() });
        }
        let mut recalled =
            RecalledContext { stored: fallback.clone(), is_complete: false, unreadable: Vec::new() };
        match snapshot.get("settings") {
            Some(Value::Object(settings)) => recalled.read_settings(settings),
            Some(_) => recalled.unreadable.push("settings".to_owned()),
            None => {}
        }
        if let Some(context) = recalled.read_field(snapshot, "told") {
            recalled.stored.context = context;
        }
        if let Some(personality) = recalled.read_field(snapshot, "tone") {
            recalled.stored.first_personality = personality;
        }
        Some(recalled)
    }

    /// Reads only the context that the model has been shown.
    pub fn read_context(stored: &StoredSettings) -> Option<ContextSnapshot> {
        read_value(stored.snapshot.get("told")?)
    }
}

impl RecalledContext {
    /// Replaces one setting after the other, so that the type itself decides which of them it can read.
    fn read_settings(&mut self, stored: &Map<String, Value>) {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(&self.stored.settings) else { return };
        for (name, value) in stored {
            let before = fields.insert(name.clone(), value.clone());
            match read_value(&Value::Object(fields.clone())) {
                Some(settings) => self.stored.settings = settings,
                None => {
                    self.unreadable.push(name.clone());
                    fields.remove(name);
                    fields.extend(before.map(|before| (name.clone(), before)));
                }
            }
        }
    }

    /// Returns `None` for a field that is missing or cannot be read.
    fn read_field<T: DeserializeOwned>(&mut self, snapshot: &Map<String, Value>, name: &str) -> Option<T> {
        let value = snapshot.get(name)?;
        let read = read_value(value);
        if read.is_none() {
            self.unreadable.push(name.to_owned());
        }
        read
    }
}

fn read_value<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

/// A field of a snapshot by itself.
#[derive(Debug, PartialEq)]
pub(crate) enum StoredSetting<T> {
    Missing,
    /// The field is there in a form that this version does not know.
    Unreadable,
    Value(T),
}

impl<T: DeserializeOwned> StoredSetting<T> {
    /// Reads one of the settings within a snapshot.
    pub fn read(stored: Option<&StoredSettings>, name: &str) -> Self {
        let settings = stored.and_then(|stored| stored.snapshot.get("settings"));
        match settings.and_then(|settings| settings.get(name)) {
            None | Some(Value::Null) => Self::Missing,
            Some(value) => read_value(value).map_or(Self::Unreadable, Self::Value),
        }
    }
}

/// Instructions that replaced those of the first record.
#[derive(Debug, Default)]
pub(crate) struct StoredInstructions {
    pub base: Option<String>,
    pub developer: Option<String>,
}

impl StoredInstructions {
    pub fn read(stored: Option<&StoredSettings>) -> Self {
        let text = |name: &str| stored?.snapshot.get(name)?.as_str().map(str::to_owned);
        Self { base: text("baseInstructions"), developer: text("developerInstructions") }
    }
}

#[cfg(test)]
mod tests {
    use codicil_protocol::{
        ApprovalsReviewer, AskForApproval, ReadOnlyAccess, ReasoningEffort, ReasoningSummary, SandboxPolicy,
        ServiceTier,
    };
    use codicil_store::Record;

    use super::*;
    use crate::profiles::BuiltinProfile;

    const VERSION_1: &str = include_str!("../tests/golden/settings_v1.json");
    const VERSION_2: &str = include_str!("../tests/golden/settings_v2.json");
    const BROKEN_FIELDS: &str = include_str!("../tests/golden/settings_broken_fields.json");

    fn stored(record: &str) -> StoredSettings {
        match serde_json::from_str(record).unwrap() {
            Record::Settings(settings) => settings,
            other => panic!("not a settings record: {other:?}"),
        }
    }

    /// What the golden files hold.
    fn golden() -> StoredContext {
        let sandbox = SandboxPolicy::WorkspaceWrite {
            writable_roots: Vec::new(),
            read_only_access: ReadOnlyAccess::FullAccess,
            network_access: true,
            exclude_tmpdir_env_var: false,
            exclude_slash_tmp: false,
        };
        StoredContext {
            settings: TurnSettings {
                model: "m-1".to_owned(),
                provider: "mock".to_owned(),
                effort: Some(ReasoningEffort::High),
                summary: Some(ReasoningSummary::Concise),
                service_tier: Some(ServiceTier::Fast),
                cwd: "/work/project".into(),
                workspace_roots: Vec::new(),
                has_environment: true,
                approval_policy: AskForApproval::Never,
                approvals_reviewer: ApprovalsReviewer::User,
                sandbox: sandbox.clone(),
                profile: Some(ThreadProfile::Builtin(BuiltinProfile::Workspace)),
                personality: Some(Personality::Friendly),
                collaboration_mode: None,
            },
            context: Some(ContextSnapshot {
                model: "m-1".to_owned(),
                has_environment: true,
                cwd: "/work/project".to_owned(),
                approval_policy: AskForApproval::Never,
                sandbox_policy: sandbox,
                hosts_by_proxy: false,
                personality: Some(Personality::Friendly),
                collaboration_mode: None,
                shell: "bash".to_owned(),
                current_date: "2026-11-15".to_owned(),
                timezone: "Europe/Berlin".to_owned(),
                agents_md: Some("cbf29ce484222325".to_owned()),
                developer_instructions: None,
            }),
            first_personality: Some(Personality::Pragmatic),
            base_instructions: None,
            developer_instructions: None,
        }
    }

    /// What a thread has that is configured differently.
    fn configured() -> StoredContext {
        let mut settings = golden().settings;
        settings.model = "configured".to_owned();
        settings.provider = "configured".to_owned();
        settings.service_tier = None;
        settings.approval_policy = AskForApproval::OnRequest;
        settings.profile = None;
        settings.personality = None;
        StoredContext {
            settings,
            context: None,
            first_personality: None,
            base_instructions: None,
            developer_instructions: None,
        }
    }

    fn read(record: &str) -> RecalledContext {
        StoredContext::read(&stored(record), &configured()).unwrap()
    }

    #[test]
    fn snapshots_of_every_version_load() {
        for (version, record) in [(1, VERSION_1), (2, VERSION_2)] {
            let settings = stored(record);
            assert_eq!(settings.version, version);
            assert_eq!(settings.model.as_deref(), Some("m-1"));
            assert_eq!(settings.effort, Some(ReasoningEffort::High));
            let recalled = read(record);
            assert_eq!(recalled.stored, golden(), "version {version}");
            assert!(recalled.is_complete && recalled.unreadable.is_empty());
            assert_eq!(StoredContext::read_context(&settings), golden().context);
        }
    }

    #[test]
    fn the_newest_version_is_what_is_written() {
        let written = serde_json::to_value(Record::Settings(golden().to_stored())).unwrap();
        let golden: Value = serde_json::from_str(VERSION_2).unwrap();
        assert_eq!(written, golden);
    }

    #[test]
    fn fields_that_cannot_be_read_are_reported_and_the_others_kept() {
        let record = stored(BROKEN_FIELDS);
        assert_eq!(record.version, 3);
        assert_eq!((record.model.as_deref(), record.effort.clone()), (Some("m-1"), None));
        let mut recalled = read(BROKEN_FIELDS);
        recalled.unreadable.sort();
        assert_eq!(recalled.unreadable, ["profile", "provider", "serviceTier", "told"]);
        assert!(!recalled.is_complete);
        let mut expected = golden();
        expected.settings.provider = "configured".to_owned();
        expected.settings.service_tier = None;
        expected.settings.profile = None;
        expected.context = None;
        assert_eq!(recalled.stored, expected);
        assert_eq!(StoredContext::read_context(&record), None);
    }

    #[test]
    fn missing_fields_are_not_unreadable() {
        let record =
            r#"{"type":"settings","model":"m-1","effort":null,"snapshot":{"settings":{"model":"m-2"}}}"#;
        let recalled = read(record);
        assert!(!recalled.is_complete && recalled.unreadable.is_empty());
        assert_eq!(recalled.stored.settings.model, "m-2");
        assert_eq!(recalled.stored.settings.provider, "configured");
        let imported = r#"{"type":"settings","model":"m-1","effort":null,"snapshot":null}"#;
        assert!(StoredContext::read(&stored(imported), &configured()).is_none());
    }

    #[test]
    fn a_setting_by_itself_is_missing_unreadable_or_a_value() {
        let record = stored(BROKEN_FIELDS);
        let reviewer = StoredSetting::<ApprovalsReviewer>::read(Some(&record), "approvalsReviewer");
        assert_eq!(reviewer, StoredSetting::Value(ApprovalsReviewer::User));
        assert_eq!(StoredSetting::<ThreadProfile>::read(Some(&record), "profile"), StoredSetting::Unreadable);
        assert_eq!(StoredSetting::<String>::read(Some(&record), "nothing"), StoredSetting::Missing);
        assert_eq!(StoredSetting::<String>::read(None, "sandbox"), StoredSetting::Missing);
    }
}
