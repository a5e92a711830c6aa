//! One directory of a simulated device.

use super::SimDevice;
use super::file::{Access, SimFile};
use super::image::FileImage;
use super::world::{Folder, Inode, Outcome, Shared, SubFolder, World, failure};
use crate::directory::{Create, Directory, DirectoryLock, File, Method};
use crate::error::{Cause, Error, NvramFault, Result, Verb};
use crate::name;
use crate::nvram::{LINE_BYTES, NvRegion, Persistence, SimNvram};
use std::fmt;
use std::sync::{Arc, MutexGuard};

#[derive(Clone)]
pub(super) struct SimDirectory {
    pub(super) device: SimDevice,
    pub(super) number: usize,
    pub(super) prefix: String,
}

impl SimDirectory {
    fn shared(&self) -> &Arc<Shared> {
        &self.device.shared
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn look(&self, verb: Verb, name: &str) -> Result<MutexGuard<'_, World>> {
        self.shared().look(verb, || self.path(name))
    }

    fn missing(&self, verb: Verb, name: &str) -> Error {
        Error::new(verb, self.path(name), Cause::NotFound)
    }

    fn file(&self, inode: Arc<Inode>, access: Access, method: Method) -> Arc<dyn File> {
        Arc::new(SimFile { shared: self.shared().clone(), inode, access, method })
    }

    fn folder<'a>(&self, world: &'a mut World) -> &'a mut Folder {
        &mut world.folders[self.number]
    }

    /// Takes a step whose only effect is `change`. The change is un-synced; it is made even if the
    /// device crashes at this step.
    fn change(
        &self,
        world: &mut World,
        verb: Verb,
        name: &str,
        change: impl FnOnce(&mut World),
    ) -> Result<()> {
        let path = self.path(name);
        let outcome = self.shared().step(world, verb, &path);
        if let Outcome::Fail(fault) = outcome {
            return Err(failure(fault, verb, path));
        }
        change(world);
        match outcome {
            Outcome::Crash => Err(Error::new(verb, path, Cause::Crashed)),
            _ => Ok(()),
        }
    }
}

impl Directory for SimDirectory {
    fn open(&self, name: &str, create: Create, method: Method) -> Result<Arc<dyn File>> {
        name::check(Verb::Open, name)?;
        let mut world = self.look(Verb::Open, name)?;
        if let Some(inode) = self.folder(&mut world).names.seen().get(name).cloned() {
            if create == Create::New {
                return Err(Error::new(Verb::Open, self.path(name), Cause::AlreadyExists));
            }
            return Ok(self.file(inode, Access::ReadWrite, method));
        }
        if create == Create::Never {
            return Err(self.missing(Verb::Open, name));
        }
        let inode = world.inode(self.path(name), FileImage::default());
        self.change(&mut world, Verb::Open, name, |world| {
            self.folder(world).names.create(name, inode.clone());
        })?;
        Ok(self.file(inode, Access::ReadWrite, method))
    }

    fn open_read_only(&self, name: &str) -> Result<Arc<dyn File>> {
        name::check(Verb::Open, name)?;
        let mut world = self.look(Verb::Open, name)?;
        match self.folder(&mut world).names.seen().get(name) {
            Some(inode) => Ok(self.file(inode.clone(), Access::ReadOnly, Method::Buffered)),
            None => Err(self.missing(Verb::Open, name)),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut world = self.look(Verb::List, "")?;
        let mut names: Vec<String> = self.folder(&mut world).names.seen().keys().cloned().collect();
        drop(world);
        names.extend(self.device.regions.within(&self.prefix));
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        name::check(Verb::Rename, from)?;
        name::check(Verb::Rename, to)?;
        let mut world = self.look(Verb::Rename, from)?;
        let Some(inode) = self.folder(&mut world).names.seen().get(from).cloned() else {
            return Err(self.missing(Verb::Rename, from));
        };
        self.change(&mut world, Verb::Rename, from, |world| {
            inode.content().path = self.path(to);
            if from != to {
                self.folder(world).names.rename(from, to, inode);
            }
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        name::check(Verb::Remove, name)?;
        let mut world = self.look(Verb::Remove, name)?;
        if self.device.regions.remove(&self.path(name)) {
            return Ok(());
        }
        let Some(inode) = self.folder(&mut world).names.seen().get(name).cloned() else {
            return Err(self.missing(Verb::Remove, name));
        };
        self.change(&mut world, Verb::Remove, name, |world| self.folder(world).names.remove(name, inode))
    }

    fn sync(&self) -> Result<()> {
        let mut world = self.shared().enter(Verb::SyncDirectory, || self.prefix.clone(), || None)?;
        match self.shared().step(&mut world, Verb::SyncDirectory, &self.prefix) {
            Outcome::Succeed => {
                self.folder(&mut world).names.sync();
                Ok(())
            }
            Outcome::Crash => Err(Error::new(Verb::SyncDirectory, &*self.prefix, Cause::Crashed)),
            Outcome::Fail(fault) => {
                let World { folders, rng, .. } = &mut *world;
                folders[self.number].names.fail_sync(rng);
                Err(failure(fault, Verb::SyncDirectory, self.prefix.clone()))
            }
        }
    }

    fn lock(&self) -> Result<Box<dyn DirectoryLock>> {
        let mut world = self.look(Verb::Lock, "")?;
        let folder = self.folder(&mut world);
        if folder.locked {
            let holder = Cause::Locked(Some(std::process::id()));
            return Err(Error::new(Verb::Lock, format!("/{}", self.prefix), holder));
        }
        folder.locked = true;
        Ok(Box::new(SimLock { directory: self.clone() }))
    }

    fn subdirectory(&self, name: &str) -> Result<Arc<dyn Directory>> {
        name::check(Verb::Open, name)?;
        let mut world = self.look(Verb::Open, name)?;
        let prefix = format!("{}/", self.path(name));
        let found = self.folder(&mut world).folders.get(name).copied();
        if let Some(SubFolder { number, kept: true }) = found {
            return Ok(Arc::new(SimDirectory { device: self.device.clone(), number, prefix }));
        }
        let number = found.map_or(world.folders.len(), |found| found.number);
        let outcome = self.shared().step(&mut world, Verb::Open, &self.path(name));
        if let Outcome::Fail(fault) = outcome {
            return Err(failure(fault, Verb::Open, self.path(name)));
        }
        if found.is_none() {
            world.folders.push(Folder { prefix: prefix.clone(), ..Folder::default() });
        }
        let kept = outcome == Outcome::Succeed;
        let folder = self.folder(&mut world);
        folder.folders.insert(name.to_owned(), SubFolder { number, kept });
        if !kept {
            return Err(Error::new(Verb::Open, prefix, Cause::Crashed));
        }
        // To sync the entry is to sync the directory that holds it, with all its other names.
        folder.names.sync();
        Ok(Arc::new(SimDirectory { device: self.device.clone(), number, prefix }))
    }

    fn existing_subdirectory(&self, name: &str) -> Result<Option<Arc<dyn Directory>>> {
        name::check(Verb::Open, name)?;
        let mut world = self.look(Verb::Open, name)?;
        let found = self.folder(&mut world).folders.get(name).copied();
        Ok(found.map(|SubFolder { number, .. }| {
            let prefix = format!("{}/", self.path(name));
            Arc::new(SimDirectory { device: self.device.clone(), number, prefix }) as Arc<dyn Directory>
        }))
    }

    /// Opens a simulated region, whatever persistence the caller asks for.
    fn nvram(&self, name: &str, bytes: u64, _want: Persistence) -> Result<Arc<NvRegion>> {
        name::check(Verb::Map, name)?;
        let path = self.path(name);
        let refused = |cause| Error::new(Verb::Map, &*path, cause);
        let regions = &self.device.regions;
        let mut world = self.look(Verb::Map, name)?;
        if regions.find(&path).is_none() {
            if bytes == 0 || !bytes.is_multiple_of(LINE_BYTES) {
                return Err(refused(Cause::Nvram(NvramFault::Bytes(bytes))));
            }
            match self.shared().step(&mut world, Verb::Map, &path) {
                Outcome::Succeed => {}
                Outcome::Crash => return Err(refused(Cause::Crashed)),
                Outcome::Fail(fault) => return Err(failure(fault, Verb::Map, path)),
            }
            drop(world);
            regions.add(path.clone(), SimNvram::new(bytes).beside(&self.device.alone()));
        }
        regions.open(&path, bytes).map_err(refused)
    }

    fn describe(&self) -> String {
        format!("/{} (simulated device, seed {})", self.prefix, self.shared().lock().seed)
    }
}

impl fmt::Debug for SimDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDirectory(/{})", self.prefix)
    }
}

struct SimLock {
    directory: SimDirectory,
}

impl DirectoryLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut world = self.directory.shared().lock();
        self.directory.folder(&mut world).locked = false;
    }
}

impl fmt::Debug for SimLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimLock")
    }
}
