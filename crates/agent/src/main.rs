//! The agent in a guest of the lab: prepares the guest and does what the host requests.
//!
//! As PID 1 it uses a virtio-serial port. With `--stdio` it serves the same protocol on standard input and output, as
//! an ordinary process, and changes nothing else.

mod call;
mod children;
mod control;
mod failure;
mod files;
mod frame;
mod run;
mod server;

use crate::children::Children;
use crate::failure::reason;
use crate::run::Environment;
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    if std::process::id() == 1 {
        run_as_init();
        return ExitCode::FAILURE;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["--stdio"] {
        eprintln!("usage: blklab-agent --stdio (without --stdio it must be PID 1 of a guest)");
        return ExitCode::from(2);
    }
    match on_stdio() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("blklab-agent: {why}");
            ExitCode::FAILURE
        }
    }
}

fn on_stdio() -> Result<(), String> {
    let unusable = |error: io::Error| reason(&error);
    let from = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(unusable)?);
    let to = File::from(io::stdout().as_fd().try_clone_to_owned().map_err(unusable)?);
    server::serve(from, to, &Children::new().map_err(unusable)?, None, &[])
}

// PID 1: prepares the guest, finds its port to the host, and powers off.

/// QEMU's name of the port.
const PORT: &str = "org.blklab.agent";
/// The longest time until it appears.
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

/// The guest has no udev, and mdadm would wait for it.
const ENVIRONMENT: Environment =
    Some(&[("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("LANG", "C.UTF-8"), ("HOME", "/root"), ("MDADM_NO_UDEV", "1")]);

/// Serves until the host disconnects, then powers off; returns only if that fails.
fn run_as_init() {
    if let Err(why) = serve_host() {
        print_line(&why);
    }
    if let Err(error) = reboot(RebootCommand::PowerOff) {
        print_line(&format!("cannot power off: {}", reason(&error.into())));
    }
}

fn serve_host() -> Result<(), String> {
    let mut notes = mount_all();
    let children =
        Children::new().map_err(|error| format!("cannot start the thread that reaps processes: {}", reason(&error)))?;
    notes.extend(load_modules(&children));
    let path = find_port()?;
    let unusable = |error: io::Error| format!("{path}: {}", reason(&error));
    let port = OpenOptions::new().read(true).write(true).open(&path).map_err(unusable)?;
    let writing = port.try_clone().map_err(unusable)?;
    server::serve(port, writing, &children, ENVIRONMENT, &notes)
}

/// Mounts the filesystems; returns a note for each failure.
fn mount_all() -> Vec<String> {
    let mount_one = |(kind, target): &(&str, &str)| {
        let made = fs::create_dir_all(target);
        let mounted = mount(*kind, *target, *kind, MountFlags::empty(), None).map_err(io::Error::from);
        match made.and(mounted) {
            Err(error) => Some(format!("{target}: cannot mount {kind}: {}", reason(&error))),
            Ok(()) => None,
        }
    };
    MOUNTS.iter().filter_map(mount_one).collect()
}

/// Loads modules; returns a note for each failure. A kernel can have them built in.
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
            None => Some(format!("{module}: modprobe did not end")),
        }
    };
    MODULES.iter().filter_map(load).collect()
}

/// Waits for the port and returns its device.
fn find_port() -> Result<String, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        for entry in fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten() {
            let is_ours = fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim_end() == PORT);
            let device = format!("/dev/{}", entry.file_name().to_string_lossy());
            if is_ours && fs::exists(&device).unwrap_or(false) {
                return Ok(device);
            }
        }
        if Instant::now() > until {
            return Err(format!("no virtio-serial port {PORT} after {} s", PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Prints a line on the console, which QEMU records.
fn print_line(text: &str) {
    let line = format!("blklab-agent: {text}\n");
    // Without a console the line is lost.
    let console = OpenOptions::new().write(true).open("/dev/console");
    let _ = console.and_then(|mut console: File| {
        console.write_all(line.as_bytes())?;
        // At power-off the serial port's buffer is lost.
        Ok(rustix::termios::tcdrain(&console)?)
    });
}
