//! The whole surface of the server on one page.

use codicil_protocol::{
    AccountLoginCancel, AccountLoginStart, AccountLogout, AccountRateLimitsRead, AccountRead, AppList,
    CollaborationModeList, CommandExec, CommandExecResize, CommandExecTerminate, CommandExecWrite,
    ConfigBatchWrite, ConfigMcpServerReload, ConfigRead, ConfigRequirementsRead, ConfigValueWrite,
    ExperimentalFeatureEnablementSet, ExperimentalFeatureList, ExternalAgentConfigDetect,
    ExternalAgentConfigImport, FeedbackUpload, FsCopy, FsCreateDirectory, FsGetMetadata, FsReadDirectory,
    FsReadFile, FsRemove, FsUnwatch, FsWatch, FsWriteFile, FuzzyFileSearch, FuzzyFileSearchSessionStart,
    FuzzyFileSearchSessionStop, FuzzyFileSearchSessionUpdate, Initialize, McpServerOauthLogin,
    McpServerStatusList, Method, MockExperimentalMethod, ModelList, PermissionProfileList, PluginInstall,
    PluginList, PluginRead, PluginUninstall, ReviewStart, SkillsConfigWrite, SkillsList, ThreadArchive,
    ThreadBackgroundTerminalsClean, ThreadCompactStart, ThreadDecrementElicitation, ThreadFork,
    ThreadIncrementElicitation, ThreadList, ThreadLoadedList, ThreadMetadataUpdate, ThreadNameSet,
    ThreadRead, ThreadRealtimeAppendAudio, ThreadRealtimeAppendText, ThreadRealtimeStart, ThreadRealtimeStop,
    ThreadResume, ThreadRollback, ThreadShellCommand, ThreadStart, ThreadTurnsList, ThreadUnarchive,
    ThreadUnsubscribe, TurnInterrupt, TurnStart, TurnSteer, WindowsSandboxSetupStart,
};

use crate::{
    cx::Cx,
    error::RpcError,
    handlers::{
        config, connection, external_agents, feedback, files, models, policy, search, threads, turns, windows,
    },
    route::Router,
};

pub fn router() -> Router {
    let built = Router::new()
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
        .on::<ThreadTurnsList>(threads::turns_list)
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
        .on::<CollaborationModeList>(models::collaboration_mode_list)
        .on::<FuzzyFileSearch>(search::fuzzy_file_search)
        .on::<FuzzyFileSearchSessionStart>(search::session_start)
        .on::<FuzzyFileSearchSessionUpdate>(search::session_update)
        .on::<FuzzyFileSearchSessionStop>(search::session_stop)
        .on::<MockExperimentalMethod>(models::mock_experimental_method)
        .on::<PermissionProfileList>(policy::permission_profile_list);
    unbuilt(built)
}

/// Methods whose area is not built yet. They check their params and their gates like all others, and then
/// say so.
fn unbuilt(router: Router) -> Router {
    router
        .on::<SkillsList>(not_built::<SkillsList>)
        .on::<PluginList>(not_built::<PluginList>)
        .on::<PluginRead>(not_built::<PluginRead>)
        .on::<AppList>(not_built::<AppList>)
        .on::<SkillsConfigWrite>(not_built::<SkillsConfigWrite>)
        .on::<PluginInstall>(not_built::<PluginInstall>)
        .on::<PluginUninstall>(not_built::<PluginUninstall>)
        .on::<ThreadRealtimeStart>(not_built::<ThreadRealtimeStart>)
        .on::<ThreadRealtimeAppendAudio>(not_built::<ThreadRealtimeAppendAudio>)
        .on::<ThreadRealtimeAppendText>(not_built::<ThreadRealtimeAppendText>)
        .on::<ThreadRealtimeStop>(not_built::<ThreadRealtimeStop>)
        .on::<McpServerOauthLogin>(not_built::<McpServerOauthLogin>)
        .on::<ConfigMcpServerReload>(not_built::<ConfigMcpServerReload>)
        .on::<McpServerStatusList>(not_built::<McpServerStatusList>)
        .on::<AccountLoginStart>(not_built::<AccountLoginStart>)
        .on::<AccountLoginCancel>(not_built::<AccountLoginCancel>)
        .on::<AccountLogout>(not_built::<AccountLogout>)
        .on::<AccountRateLimitsRead>(not_built::<AccountRateLimitsRead>)
        .on::<CommandExec>(not_built::<CommandExec>)
        .on::<CommandExecWrite>(not_built::<CommandExecWrite>)
        .on::<CommandExecTerminate>(not_built::<CommandExecTerminate>)
        .on::<CommandExecResize>(not_built::<CommandExecResize>)
        .on::<AccountRead>(not_built::<AccountRead>)
}

async fn not_built<M: Method>(_cx: Cx, _params: M::Params) -> Result<M::Response, RpcError> {
    Err(RpcError::internal(format_args!("{} is not built yet", M::NAME)))
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
