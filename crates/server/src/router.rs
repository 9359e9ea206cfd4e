//! The whole surface of the server on one page.
//!
//! The method's name is the path of its handler, in snake case: the first segment is the file in `handlers/`, the
//! other segments, joined with `_`, are the function. Where `handlers/` has a file for the first two segments, the
//! handler is in that file, and its function is named after the other segments, or after the file if there are none.
//!
//! | method | handler |
//! |---|---|
//! | `turn/start` | `handlers/turn.rs`, `fn start` |
//! | `thread/name/set` | `handlers/thread.rs`, `fn name_set` |
//! | `windowsSandbox/setupStart` | `handlers/windows_sandbox.rs`, `fn setup_start` |
//! | `thread/goal/set` (the file `thread/goal.rs` exists) | `handlers/thread/goal.rs`, `fn set` |
//! | `thread/sample` (the file `thread/sample.rs` exists) | `handlers/thread/sample.rs`, `fn sample` |
//! | `initialize` (a single segment) | `handlers/initialize.rs`, `fn initialize` |
//!
//! A test holds the table of the protocol against this rule.

use codicil_protocol::{
    AccountLoginCancel, AccountLoginStart, AccountLogout, AccountRateLimitResetCreditConsume,
    AccountRateLimitsRead, AccountRead, AccountSendAddCreditsNudgeEmail, AccountSessionList,
    AccountSessionSwitch, AccountUsageRead, AccountWorkspaceMessagesRead, AppInstalled, AppList, AppRead,
    BedrockCheckGovCloudRequirements, BedrockDiscover, BedrockSetup, CodicilRequestAnswer,
    CodicilRequestList, CodicilSandboxRead, CodicilSubscribe, CodicilThreadRehome, CodicilTurnRead,
    CodicilUsageRead, CollaborationModeList, CommandExec, CommandExecResize, CommandExecTerminate,
    CommandExecWrite, ConfigBatchWrite, ConfigMcpServerReload, ConfigRead, ConfigRequirementsRead,
    ConfigValueWrite, EnvironmentAdd, EnvironmentInfo, EnvironmentStatus, ExperimentalFeatureEnablementSet,
    ExperimentalFeatureList, ExternalAgentConfigDetect, ExternalAgentConfigImport,
    ExternalAgentConfigImportReadHistories, ExternalAgentConfigImportRecordHistory, FeedbackSave,
    FeedbackUpload, FsCopy, FsCreateDirectory, FsGetMetadata, FsReadDirectory, FsReadFile, FsRemove,
    FsUnwatch, FsWatch, FsWriteFile, FuzzyFileSearch, FuzzyFileSearchSessionStart,
    FuzzyFileSearchSessionStop, FuzzyFileSearchSessionUpdate, GatewayOAuthCancel, GatewayOAuthLogin,
    GatewayOAuthRead, GcpSetup, HooksList, Initialize, MarketplaceAdd, MarketplaceRemove, MarketplaceUpgrade,
    McpServerEventStreamStart, McpServerEventStreamStop, McpServerOauthLogin, McpServerResourceRead,
    McpServerStatusList, McpServerToolCall, MemoryReset, MemoryStatus, MockExperimentalMethod, ModelList,
    ModelProviderCapabilitiesRead, PermissionProfileList, PluginInstall, PluginInstalled, PluginList,
    PluginRead, PluginReconcile, PluginSearch, PluginShareCheckout, PluginShareDelete, PluginShareList,
    PluginShareSave, PluginShareUpdateTargets, PluginSkillRead, PluginUninstall, ProcessKill,
    ProcessResizePty, ProcessSpawn, ProcessWriteStdin, ProjectCreate, ProjectDelete, ProjectImport,
    ProjectList, ProjectMove, ProjectRead, ProjectUpdate, RemoteControlClientList, RemoteControlClientRevoke,
    RemoteControlDisable, RemoteControlEnable, RemoteControlPairingStart, RemoteControlPairingStatus,
    RemoteControlStatusRead, ReviewStart, RolloutCompress, ServerDiagnostics, SkillsConfigWrite,
    SkillsExtraRootsSet, SkillsList, ThreadApproveGuardianDeniedAction, ThreadArchive, ThreadAttachmentAdd,
    ThreadAttachmentList, ThreadAttachmentOwnerList, ThreadAttachmentRemove, ThreadBackgroundTerminalsClean,
    ThreadBackgroundTerminalsList, ThreadBackgroundTerminalsTerminate, ThreadCompactStart,
    ThreadDecrementElicitation, ThreadDelete, ThreadFork, ThreadGoalClear, ThreadGoalGet, ThreadGoalSet,
    ThreadIncrementElicitation, ThreadInjectItems, ThreadItemsList, ThreadItemsRead, ThreadList,
    ThreadLoadedList, ThreadMemoryModeSet, ThreadMemoryRead, ThreadMetadataUpdate, ThreadNameSet,
    ThreadPredictionRequest, ThreadQueueAdd, ThreadQueueDelete, ThreadQueueList, ThreadQueueReorder,
    ThreadQueueStart, ThreadQueueUpdate, ThreadRead, ThreadReadStateUpdate, ThreadRealtimeAppendAudio,
    ThreadRealtimeAppendSpeech, ThreadRealtimeAppendText, ThreadRealtimeListVoices, ThreadRealtimeStart,
    ThreadRealtimeStop, ThreadResume, ThreadRevert, ThreadRollback, ThreadSample, ThreadSampleCancel,
    ThreadSearch, ThreadSearchOccurrences, ThreadSectionCreate, ThreadSectionDelete, ThreadSectionList,
    ThreadSectionMove, ThreadSectionUpdate, ThreadSettingsUpdate, ThreadShellCommand, ThreadStart,
    ThreadTimelineList, ThreadTurnsList, ThreadUnarchive, ThreadUnsubscribe, TurnInterrupt,
    TurnSettingsUpdate, TurnStart, TurnSteer, UserVerificationCancel, UserVerificationDelete,
    UserVerificationEnroll, UserVerificationStatus, UserVerificationVerify, WindowsSandboxReadinessRead,
    WindowsSandboxSetupStart,
};

use crate::{
    handlers::{
        account, account_session, app, codicil, collaboration_mode, command, config, config_requirements,
        environment, experimental_feature, external_agent_config, feedback, fs, fuzzy_file_search, hooks,
        initialize, marketplace, mcp_server, mcp_server_status, memory, mock, model, model_provider,
        permission_profile, plugin, process, project, remote_control, review, rollout, server, skills,
        thread, thread_section, turn, user_verification, windows_sandbox,
    },
    route::Router,
};

pub fn router() -> Router {
    let router = with_threads(Router::new());
    let router = with_commands_and_files(router);
    let router = with_extensions(router);
    let router = with_configuration(router);
    with_accounts(router)
}

fn with_threads(router: Router) -> Router {
    router
        .on::<Initialize>(initialize::initialize)
        // Threads.
        .on_encoded::<ThreadStart, _>(thread::start)
        .on_encoded::<ThreadResume, _>(thread::resume)
        .on_encoded::<ThreadFork, _>(thread::fork)
        .on::<ThreadList>(thread::list)
        .on::<ThreadLoadedList>(thread::loaded_list)
        .on_encoded::<ThreadRead, _>(thread::read)
        .on::<ThreadTurnsList>(thread::turns::list)
        .on::<ThreadItemsList>(thread::items::list)
        .on::<ThreadUnsubscribe>(thread::unsubscribe)
        .on_encoded::<ThreadArchive, _>(thread::archive)
        .on_encoded::<ThreadUnarchive, _>(thread::unarchive)
        .on_encoded::<ThreadDelete, _>(thread::delete)
        .on::<ThreadNameSet>(thread::name_set)
        .on::<ThreadMetadataUpdate>(thread::metadata_update)
        .on::<ThreadSettingsUpdate>(thread::settings_update)
        .on::<ThreadCompactStart>(thread::compact_start)
        .on::<ThreadRollback>(thread::rollback)
        .on::<ThreadRevert>(thread::revert)
        .on::<ThreadInjectItems>(thread::inject_items)
        .on::<ThreadShellCommand>(thread::shell_command)
        .on::<ThreadBackgroundTerminalsList>(thread::background_terminals::list)
        .on::<ThreadBackgroundTerminalsTerminate>(thread::background_terminals::terminate)
        .on::<ThreadBackgroundTerminalsClean>(thread::background_terminals::clean)
        .on::<ThreadIncrementElicitation>(thread::increment_elicitation)
        .on::<ThreadDecrementElicitation>(thread::decrement_elicitation)
        .on::<ThreadGoalSet>(thread::goal::set)
        .on::<ThreadGoalGet>(thread::goal::get)
        .on::<ThreadGoalClear>(thread::goal::clear)
        .on::<ThreadQueueAdd>(thread::queue::add)
        .on::<ThreadQueueList>(thread::queue::list)
        .on::<ThreadQueueUpdate>(thread::queue::update)
        .on::<ThreadQueueDelete>(thread::queue::delete)
        .on::<ThreadQueueReorder>(thread::queue::reorder)
        .on::<ThreadQueueStart>(thread::queue::start)
        .on::<ThreadReadStateUpdate>(thread::read_state::update)
        .on::<ThreadItemsRead>(thread::items::read)
        .on::<ThreadTimelineList>(thread::timeline::list)
        .on::<ThreadSearch>(thread::search)
        .on::<ThreadSearchOccurrences>(thread::search_occurrences)
        .on::<ThreadSample>(thread::sample::sample)
        .on::<ThreadSampleCancel>(thread::sample::cancel)
        .on::<ThreadSectionMove>(thread::section::r#move)
        .on::<ThreadAttachmentAdd>(thread::attachment::add)
        .on::<ThreadAttachmentList>(thread::attachment::list)
        .on::<ThreadAttachmentRemove>(thread::attachment::remove)
        .on::<ThreadAttachmentOwnerList>(thread::attachment_owner::list)
        .on::<ThreadSectionList>(thread_section::list)
        .on::<ThreadSectionCreate>(thread_section::create)
        .on::<ThreadSectionUpdate>(thread_section::update)
        .on::<ThreadSectionDelete>(thread_section::delete)
        .on::<ProjectList>(project::list)
        .on::<ProjectRead>(project::read)
        .on::<ProjectCreate>(project::create)
        .on::<ProjectImport>(project::import)
        .on::<ProjectUpdate>(project::update)
        .on::<ProjectMove>(project::r#move)
        .on::<ProjectDelete>(project::delete)
        .on::<ThreadRealtimeStart>(thread::realtime::start)
        .on::<ThreadRealtimeAppendAudio>(thread::realtime::append_audio)
        .on::<ThreadRealtimeAppendText>(thread::realtime::append_text)
        .on::<ThreadRealtimeStop>(thread::realtime::stop)
        .on::<ThreadRealtimeAppendSpeech>(thread::realtime::append_speech)
        .on::<ThreadRealtimeListVoices>(thread::realtime::list_voices)
        .on::<ThreadMemoryModeSet>(thread::memory_mode_set)
        .on::<ThreadMemoryRead>(thread::memory_read)
        .on::<ThreadPredictionRequest>(thread::prediction_request)
        .on::<ThreadApproveGuardianDeniedAction>(thread::approve_guardian_denied_action)
        .on_encoded::<CodicilSubscribe, _>(codicil::subscribe)
        // Turns.
        .on::<TurnStart>(turn::start)
        .on::<TurnSteer>(turn::steer)
        .on::<TurnInterrupt>(turn::interrupt)
        .on::<TurnSettingsUpdate>(turn::settings_update)
        .on_encoded::<ReviewStart, _>(review::start)
}

/// Adds commands and files of the client, and the machine they are on.
fn with_commands_and_files(router: Router) -> Router {
    router
        .on::<CommandExec>(command::exec)
        .on::<CommandExecWrite>(command::exec_write)
        .on::<CommandExecResize>(command::exec_resize)
        .on::<CommandExecTerminate>(command::exec_terminate)
        .on::<ProcessSpawn>(process::spawn)
        .on::<ProcessWriteStdin>(process::write_stdin)
        .on::<ProcessKill>(process::kill)
        .on::<ProcessResizePty>(process::resize_pty)
        .on::<EnvironmentAdd>(environment::add)
        .on::<EnvironmentInfo>(environment::info)
        .on::<EnvironmentStatus>(environment::status)
        .on::<ServerDiagnostics>(server::diagnostics)
        .on_encoded::<FsReadFile, _>(fs::read_file)
        .on::<FsWriteFile>(fs::write_file)
        .on::<FsCreateDirectory>(fs::create_directory)
        .on::<FsGetMetadata>(fs::get_metadata)
        .on::<FsReadDirectory>(fs::read_directory)
        .on::<FsRemove>(fs::remove)
        .on::<FsCopy>(fs::copy)
        .on::<FsWatch>(fs::watch)
        .on::<FsUnwatch>(fs::unwatch)
        .on::<FuzzyFileSearch>(fuzzy_file_search::fuzzy_file_search)
        .on::<FuzzyFileSearchSessionStart>(fuzzy_file_search::session_start)
        .on::<FuzzyFileSearchSessionUpdate>(fuzzy_file_search::session_update)
        .on::<FuzzyFileSearchSessionStop>(fuzzy_file_search::session_stop)
}

fn with_extensions(router: Router) -> Router {
    router
        .on::<SkillsList>(skills::list)
        .on::<SkillsConfigWrite>(skills::config_write)
        .on::<SkillsExtraRootsSet>(skills::extra_roots_set)
        .on::<MarketplaceAdd>(marketplace::add)
        .on::<MarketplaceRemove>(marketplace::remove)
        .on::<MarketplaceUpgrade>(marketplace::upgrade)
        .on::<PluginList>(plugin::list)
        .on::<PluginInstalled>(plugin::installed)
        .on::<PluginSearch>(plugin::search)
        .on::<PluginReconcile>(plugin::reconcile)
        .on::<PluginSkillRead>(plugin::skill_read)
        .on::<PluginShareSave>(plugin::share_save)
        .on::<PluginShareUpdateTargets>(plugin::share_update_targets)
        .on::<PluginShareList>(plugin::share_list)
        .on::<PluginShareCheckout>(plugin::share_checkout)
        .on::<PluginShareDelete>(plugin::share_delete)
        .on::<PluginRead>(plugin::read)
        .on::<PluginInstall>(plugin::install)
        .on::<PluginUninstall>(plugin::uninstall)
        .on::<AppList>(app::list)
        .on::<AppInstalled>(app::installed)
        .on::<AppRead>(app::read)
        .on::<HooksList>(hooks::list)
        .on::<McpServerStatusList>(mcp_server_status::list)
        .on::<McpServerOauthLogin>(mcp_server::oauth_login)
        .on::<McpServerToolCall>(mcp_server::tool_call)
        .on::<McpServerResourceRead>(mcp_server::resource_read)
        .on::<McpServerEventStreamStart>(mcp_server::event_stream_start)
        .on::<McpServerEventStreamStop>(mcp_server::event_stream_stop)
        .on::<MemoryStatus>(memory::status)
        .on::<MemoryReset>(memory::reset)
        .on::<RolloutCompress>(rollout::compress)
}

fn with_configuration(router: Router) -> Router {
    router
        .on::<ConfigRead>(config::read)
        .on::<ConfigValueWrite>(config::value_write)
        .on::<ConfigBatchWrite>(config::batch_write)
        .on::<ConfigMcpServerReload>(config::mcp_server_reload)
        .on::<ConfigRequirementsRead>(config_requirements::read)
        .on::<PermissionProfileList>(permission_profile::list)
        .on::<ModelList>(model::list)
        .on::<ModelProviderCapabilitiesRead>(model_provider::capabilities_read)
        .on::<CollaborationModeList>(collaboration_mode::list)
        .on::<ExperimentalFeatureList>(experimental_feature::list)
        .on::<ExperimentalFeatureEnablementSet>(experimental_feature::enablement_set)
        .on::<MockExperimentalMethod>(mock::experimental_method)
        .on::<ExternalAgentConfigDetect>(external_agent_config::detect)
        .on::<ExternalAgentConfigImport>(external_agent_config::import)
        .on::<ExternalAgentConfigImportReadHistories>(external_agent_config::import_read_histories)
        .on::<ExternalAgentConfigImportRecordHistory>(external_agent_config::import_record_history)
        .on::<WindowsSandboxSetupStart>(windows_sandbox::setup_start)
        .on::<WindowsSandboxReadinessRead>(windows_sandbox::readiness)
}

/// Adds what belongs to the user and the account, and the extension of the protocol.
fn with_accounts(router: Router) -> Router {
    router
        .on::<AccountRead>(account::read)
        .on::<AccountLoginStart>(account::login_start)
        .on::<AccountLoginCancel>(account::login_cancel)
        .on::<AccountLogout>(account::logout)
        .on::<AccountRateLimitsRead>(account::rate_limits_read)
        .on::<AccountUsageRead>(account::usage_read)
        .on::<AccountWorkspaceMessagesRead>(account::workspace_messages_read)
        .on::<AccountRateLimitResetCreditConsume>(account::rate_limit_reset_credit_consume)
        .on::<AccountSendAddCreditsNudgeEmail>(account::send_add_credits_nudge_email)
        .on::<GatewayOAuthRead>(account::gateway_o_auth_read)
        .on::<GatewayOAuthLogin>(account::gateway_o_auth_login)
        .on::<GatewayOAuthCancel>(account::gateway_o_auth_cancel)
        .on::<AccountSessionList>(account_session::list)
        .on::<AccountSessionSwitch>(account_session::switch)
        .on::<RemoteControlStatusRead>(remote_control::status_read)
        .on::<RemoteControlEnable>(remote_control::enable)
        .on::<RemoteControlDisable>(remote_control::disable)
        .on::<RemoteControlPairingStart>(remote_control::pairing_start)
        .on::<RemoteControlPairingStatus>(remote_control::pairing_status)
        .on::<RemoteControlClientList>(remote_control::client_list)
        .on::<RemoteControlClientRevoke>(remote_control::client_revoke)
        .on::<UserVerificationStatus>(user_verification::status)
        .on::<UserVerificationEnroll>(user_verification::enroll)
        .on::<UserVerificationDelete>(user_verification::delete)
        .on::<UserVerificationVerify>(user_verification::verify)
        .on::<UserVerificationCancel>(user_verification::cancel)
        .on::<BedrockDiscover>(account::bedrock_discover)
        .on::<BedrockSetup>(account::bedrock_setup)
        .on::<GcpSetup>(account::gcp_setup)
        .on::<BedrockCheckGovCloudRequirements>(account::bedrock_check_gov_cloud_requirements)
        .on::<FeedbackUpload>(feedback::upload)
        .on::<FeedbackSave>(feedback::save)
        // The extension.
        .on::<CodicilRequestList>(codicil::request_list)
        .on_encoded::<CodicilRequestAnswer, _>(codicil::request_answer)
        .on::<CodicilUsageRead>(codicil::usage_read)
        .on::<CodicilTurnRead>(codicil::turn_read)
        .on::<CodicilSandboxRead>(codicil::sandbox_read)
        .on::<CodicilThreadRehome>(codicil::thread_rehome)
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        path::Path,
    };

    use codicil_protocol::{CLIENT_REQUESTS, CODICIL_REQUESTS};

    use super::*;

    /// Returns the methods that this server serves, of all generations.
    fn methods() -> impl Iterator<Item = &'static str> {
        let served = CLIENT_REQUESTS.iter().chain(CODICIL_REQUESTS).filter(|method| method.is_served);
        served.map(|method| method.name)
    }

    fn snake_case(segment: &str) -> String {
        let mut snake = String::new();
        for letter in segment.chars() {
            if letter.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(letter.to_ascii_lowercase());
        }
        snake
    }

    fn has_file(name: &str) -> bool {
        let handlers = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/handlers");
        handlers.join(format!("{name}.rs")).is_file()
    }

    /// Returns the file and the function that a method's name leads to.
    fn handler_of(method: &str) -> (String, String) {
        let segments: Vec<_> = method.split('/').map(snake_case).collect();
        match segments.as_slice() {
            [single] => (single.clone(), single.clone()),
            [first, second, rest @ ..] if has_file(&format!("{first}/{second}")) => {
                let function = if rest.is_empty() { second.clone() } else { rest.join("_") };
                (format!("{first}/{second}"), function)
            }
            [first, rest @ ..] => (first.clone(), rest.join("_")),
            [] => unreachable!("split returns at least one segment"),
        }
    }

    #[test]
    fn every_method_has_a_route_and_every_route_a_method() {
        let routed: BTreeSet<_> = router().handlers().map(|(method, _)| method).collect();
        assert_eq!(routed, methods().collect());
    }

    #[test]
    fn the_name_of_a_method_is_the_path_of_its_handler() {
        let handlers: BTreeMap<_, _> = router().handlers().collect();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/handlers");
        for method in methods() {
            let (file, function) = handler_of(method);
            let expected = format!("codicil_server::handlers::{}::{function}", file.replace('/', "::"));
            assert_eq!(handlers[method].replace("r#", ""), expected, "the handler of {method}");
            assert!(source.join(format!("{file}.rs")).is_file(), "handlers/{file}.rs, for {method}");
        }
    }

    #[test]
    fn every_file_of_handlers_serves_a_method() {
        let files: BTreeSet<_> = methods().map(|method| format!("{}.rs", handler_of(method).0)).collect();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/handlers");
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(&source).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if entry.path().is_dir() {
                let below = std::fs::read_dir(entry.path()).unwrap().map(Result::unwrap);
                found.extend(below.map(|file| format!("{name}/{}", file.file_name().into_string().unwrap())));
            } else if name != "mod.rs" {
                found.insert(name);
            }
        }
        assert_eq!(found, files);
    }
}
