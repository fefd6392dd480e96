//! PID 1: the guest made ready, its port to the host found, and its end.

use crate::children::Children;
use crate::failure::reason;
use crate::run::{self, Environment};
use crate::server::{self, End};
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

/// What QEMU was told to call the port.
const PORT: &str = "org.blklab.agent";
/// How long it may take to appear.
const PATIENCE: Duration = Duration::from_secs(20);

const MOUNTS: [(&str, &str); 7] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tmpfs", "/run"),
    ("tmpfs", "/tmp"),
    ("debugfs", "/sys/kernel/debug"),
    ("tmpfs", "/dev/shm"),
];
const MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "virtio_console"];

/// There is no udev here, and mdadm would wait for it.
const ENVIRONMENT: Environment = Some(&[
    ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
    ("LANG", "C.UTF-8"),
    ("HOME", "/root"),
    ("MDADM_NO_UDEV", "1"),
]);

/// Serves until the host goes, then powers off; comes back only if that fails.
pub fn live() {
    if let Err(why) = serve() {
        say(&why);
    }
    if let Err(error) = reboot(RebootCommand::PowerOff) {
        say(&format!("powering off: {}", reason(&error.into())));
    }
}

fn serve() -> Result<(), String> {
    let mut notes = mount_all();
    let children = Children::new().map_err(|error| format!("no thread to reap with: {}", reason(&error)))?;
    notes.extend(load_modules(&children));
    let path = find_port()?;
    let unusable = |error: io::Error| format!("{path}: {}", reason(&error));
    let port = OpenOptions::new().read(true).write(true).open(&path).map_err(unusable)?;
    let writing = port.try_clone().map_err(unusable)?;
    match server::serve(port, writing, &children, ENVIRONMENT, &notes) {
        // What the host asked to be kept is on its disks; when it went, nobody wants them.
        End::Asked => rustix::fs::sync(),
        End::Closed => {}
        End::Lost(why) => return Err(why),
    }
    Ok(())
}

/// Returns what could not be mounted, and why.
fn mount_all() -> Vec<String> {
    let mount_one = |(kind, target): &(&str, &str)| {
        let made = fs::create_dir_all(target);
        let mounted = mount(*kind, *target, *kind, MountFlags::empty(), None).map_err(io::Error::from);
        match made.and(mounted) {
            Err(error) => Some(format!("{target}: {kind} is not mounted: {}", reason(&error))),
            Ok(()) => None,
        }
    };
    MOUNTS.iter().filter_map(mount_one).collect()
}

/// Returns which modules could not be loaded; a kernel may have them built in.
fn load_modules(children: &Children) -> Vec<String> {
    let load = |module: &&str| {
        let argv = ["modprobe", "-a", "-q", module].map(String::from);
        let mut command = run::command(&argv, ENVIRONMENT)?;
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let status = match children.spawn(&mut command) {
            Ok((_, pid)) => {
                let status = children.wait(pid, Some(Instant::now() + PATIENCE));
                children.forget(pid);
                status
            }
            Err(error) => return Some(format!("{module}: modprobe: {}", reason(&error))),
        };
        match status {
            Some(0) => None,
            Some(status) => Some(format!("{module}: modprobe ended with status {status}")),
            None => Some(format!("{module}: modprobe does not end")),
        }
    };
    MODULES.iter().filter_map(load).collect()
}

/// Returns the port's device, waiting for it to appear.
fn find_port() -> Result<String, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        for entry in fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten() {
            let is_ours =
                fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim_end() == PORT);
            let device = format!("/dev/{}", entry.file_name().to_string_lossy());
            if is_ours && fs::exists(&device).unwrap_or(false) {
                return Ok(device);
            }
        }
        if Instant::now() > until {
            return Err(format!("no virtio-serial port named {PORT} within {} s", PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Prints a line where QEMU writes it down.
fn say(what: &str) {
    let line = format!("blklab-agent: {what}\n");
    // Without a console there is nobody to tell.
    let console = OpenOptions::new().write(true).open("/dev/console");
    let _ = console.and_then(|mut console: File| {
        console.write_all(line.as_bytes())?;
        // What is still in the serial port's buffer is lost when the power goes.
        Ok(rustix::termios::tcdrain(&console)?)
    });
}
