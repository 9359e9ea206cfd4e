//! The whole surface of the server on one page.

use codicil_protocol::{
    AccountLoginCancel, AccountLoginStart, AccountLogout, AccountRateLimitsRead, AccountRead, AppList,
    BedrockCheckGovCloudRequirements, CollaborationModeList, CommandExec, CommandExecResize,
    CommandExecTerminate, CommandExecWrite, ConfigBatchWrite, ConfigMcpServerReload, ConfigRead,
    ConfigRequirementsRead, ConfigValueWrite, ExperimentalFeatureEnablementSet, ExperimentalFeatureList,
    ExternalAgentConfigDetect, ExternalAgentConfigImport, FeedbackUpload, FsCopy, FsCreateDirectory,
    FsGetMetadata, FsReadDirectory, FsReadFile, FsRemove, FsUnwatch, FsWatch, FsWriteFile, FuzzyFileSearch,
    FuzzyFileSearchSessionStart, FuzzyFileSearchSessionStop, FuzzyFileSearchSessionUpdate, HooksList,
    Initialize, McpServerOauthLogin, McpServerStatusList, MockExperimentalMethod, ModelList,
    PermissionProfileList, PluginInstall, PluginList, PluginRead, PluginUninstall, ReviewStart,
    SkillsConfigWrite, SkillsList, ThreadArchive, ThreadBackgroundTerminalsClean,
    ThreadBackgroundTerminalsList, ThreadBackgroundTerminalsTerminate, ThreadCompactStart,
    ThreadDecrementElicitation, ThreadDelete, ThreadFork, ThreadGoalClear, ThreadGoalGet, ThreadGoalSet,
    ThreadIncrementElicitation, ThreadItemsList, ThreadList, ThreadLoadedList, ThreadMetadataUpdate,
    ThreadNameSet, ThreadRead, ThreadRealtimeAppendAudio, ThreadRealtimeAppendText, ThreadRealtimeStart,
    ThreadRealtimeStop, ThreadResume, ThreadRollback, ThreadSettingsUpdate, ThreadShellCommand, ThreadStart,
    ThreadTurnsList, ThreadUnarchive, ThreadUnsubscribe, TurnInterrupt, TurnStart, TurnSteer,
    WindowsSandboxSetupStart,
};

use crate::{
    handlers::{
        account, apps, command_exec, config, connection, external_agents, feedback, files, goals, history,
        hooks, mcp, models, plugins, policy, realtime, search, skills, threads, turns, windows,
    },
    route::Router,
};

pub fn router() -> Router {
    Router::new()
        .on::<Initialize>(connection::initialize)
        .on::<ThreadStart>(threads::start)
        .on_encoded::<ThreadResume, _>(threads::resume)
        .on_encoded::<ThreadFork, _>(threads::fork)
        .on::<ThreadArchive>(threads::archive)
        .on::<ThreadUnsubscribe>(threads::unsubscribe)
        .on::<ThreadIncrementElicitation>(threads::increment_elicitation)
        .on::<ThreadDecrementElicitation>(threads::decrement_elicitation)
        .on::<ThreadNameSet>(threads::name_set)
        .on::<ThreadMetadataUpdate>(threads::metadata_update)
        .on::<ThreadUnarchive>(threads::unarchive)
        .on::<ThreadCompactStart>(threads::compact_start)
        .on::<ThreadShellCommand>(threads::shell_command)
        .on::<ThreadBackgroundTerminalsClean>(threads::background_terminals_clean)
        .on::<ThreadRollback>(threads::rollback)
        .on::<ThreadList>(threads::list)
        .on::<ThreadLoadedList>(threads::loaded_list)
        .on_encoded::<ThreadRead, _>(threads::read)
        .on::<ThreadTurnsList>(history::turns_list)
        .on::<ThreadItemsList>(history::items_list)
        .on::<ThreadSettingsUpdate>(threads::settings_update)
        .on::<ThreadDelete>(threads::delete)
        .on::<ThreadGoalSet>(goals::set)
        .on::<ThreadGoalGet>(goals::get)
        .on::<ThreadGoalClear>(goals::clear)
        .on::<ThreadBackgroundTerminalsList>(threads::background_terminals_list)
        .on::<ThreadBackgroundTerminalsTerminate>(threads::background_terminals_terminate)
        .on::<HooksList>(hooks::list)
        .on_encoded::<FsReadFile, _>(files::read_file)
        .on::<FsWriteFile>(files::write_file)
        .on::<FsCreateDirectory>(files::create_directory)
        .on::<FsGetMetadata>(files::get_metadata)
        .on::<FsReadDirectory>(files::read_directory)
        .on::<FsRemove>(files::remove)
        .on::<FsCopy>(files::copy)
        .on::<FsWatch>(files::watch)
        .on::<FsUnwatch>(files::unwatch)
        .on::<TurnStart>(turns::start)
        .on::<TurnSteer>(turns::steer)
        .on::<TurnInterrupt>(turns::interrupt)
        .on::<ReviewStart>(turns::review_start)
        .on::<CommandExec>(command_exec::exec)
        .on::<CommandExecWrite>(command_exec::write)
        .on::<CommandExecResize>(command_exec::resize)
        .on::<CommandExecTerminate>(command_exec::terminate)
        .on::<SkillsList>(skills::list)
        .on::<PluginList>(plugins::list)
        .on::<PluginRead>(plugins::read)
        .on::<AppList>(apps::list)
        .on::<SkillsConfigWrite>(skills::config_write)
        .on::<PluginInstall>(plugins::install)
        .on::<PluginUninstall>(plugins::uninstall)
        .on::<ModelList>(models::list)
        .on::<ExperimentalFeatureList>(models::experimental_feature_list)
        .on::<ExperimentalFeatureEnablementSet>(models::experimental_feature_enablement_set)
        .on::<WindowsSandboxSetupStart>(windows::setup_start)
        .on::<FeedbackUpload>(feedback::upload)
        .on::<ConfigRead>(config::read)
        .on::<ExternalAgentConfigDetect>(external_agents::detect)
        .on::<ExternalAgentConfigImport>(external_agents::import)
        .on::<ConfigValueWrite>(config::value_write)
        .on::<ConfigBatchWrite>(config::batch_write)
        .on::<ConfigRequirementsRead>(config::requirements_read)
        .on::<McpServerStatusList>(mcp::status_list)
        .on::<McpServerOauthLogin>(mcp::oauth_login)
        .on::<ConfigMcpServerReload>(mcp::reload)
        .on::<CollaborationModeList>(models::collaboration_mode_list)
        .on::<FuzzyFileSearch>(search::fuzzy_file_search)
        .on::<FuzzyFileSearchSessionStart>(search::session_start)
        .on::<FuzzyFileSearchSessionUpdate>(search::session_update)
        .on::<FuzzyFileSearchSessionStop>(search::session_stop)
        .on::<MockExperimentalMethod>(models::mock_experimental_method)
        .on::<PermissionProfileList>(policy::permission_profile_list)
        .on::<AccountRead>(account::read)
        .on::<BedrockCheckGovCloudRequirements>(account::bedrock_check_gov_cloud_requirements)
        .on::<AccountLoginStart>(account::login_start)
        .on::<AccountLoginCancel>(account::login_cancel)
        .on::<AccountLogout>(account::logout)
        .on::<AccountRateLimitsRead>(account::rate_limits_read)
        .on::<ThreadRealtimeStart>(realtime::start)
        .on::<ThreadRealtimeAppendAudio>(realtime::append_audio)
        .on::<ThreadRealtimeAppendText>(realtime::append_text)
        .on::<ThreadRealtimeStop>(realtime::stop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use codicil_protocol::{CLIENT_REQUESTS, LATER_REQUESTS};

    use super::*;

    #[test]
    fn every_method_of_the_table_has_a_route_and_no_route_is_missing_from_it() {
        let table: BTreeSet<_> =
            CLIENT_REQUESTS.iter().chain(LATER_REQUESTS).map(|method| method.name).collect();
        assert_eq!(router().methods().collect::<BTreeSet<_>>(), table);
    }
}
