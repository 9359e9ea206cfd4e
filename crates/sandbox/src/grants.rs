//! What one command may do beyond its policy.

use std::path::PathBuf;

use codicil_protocol::{AdditionalPermissionProfile, GrantedPermissionProfile, RequestPermissionProfile};

/// Permissions that were asked for and granted. Paths that do not exist grant nothing: to let a command make a
/// file, grant the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxGrants {
    /// Files and directory trees; without effect where everything can be read.
    pub readable: Vec<PathBuf>,
    /// Files and directory trees. A socket here can be connected to.
    pub writable: Vec<PathBuf>,
    /// All of the network. `false` takes nothing away.
    pub network: bool,
}

/// The profiles differ only in who speaks: the agent, the person, the command.
macro_rules! grants_from {
    ($($profile:ty),*) => {$(
        impl From<&$profile> for SandboxGrants {
            fn from(profile: &$profile) -> Self {
                let files = profile.file_system.as_ref();
                let paths = |list: Option<&Vec<codicil_protocol::AbsolutePathBuf>>| {
                    list.into_iter().flatten().map(|path| path.to_path_buf()).collect()
                };
                Self {
                    readable: paths(files.and_then(|files| files.read.as_ref())),
                    writable: paths(files.and_then(|files| files.write.as_ref())),
                    network: profile.network.as_ref().and_then(|network| network.enabled).unwrap_or(false),
                }
            }
        }
    )*};
}

grants_from!(AdditionalPermissionProfile, GrantedPermissionProfile, RequestPermissionProfile);

#[cfg(test)]
mod tests {
    use codicil_protocol::{AbsolutePathBuf, AdditionalFileSystemPermissions, AdditionalNetworkPermissions};

    use super::*;

    #[test]
    fn a_profile_is_read_as_it_is_meant() {
        let profile = AdditionalPermissionProfile {
            network: Some(AdditionalNetworkPermissions { enabled: Some(true) }),
            file_system: Some(AdditionalFileSystemPermissions {
                read: None,
                write: AbsolutePathBuf::new("/a").map(|path| vec![path]),
            }),
        };
        let grants = SandboxGrants::from(&profile);
        assert_eq!(grants, SandboxGrants { readable: vec![], writable: vec!["/a".into()], network: true });
        assert_eq!(SandboxGrants::from(&AdditionalPermissionProfile::default()), SandboxGrants::default());
    }
}
