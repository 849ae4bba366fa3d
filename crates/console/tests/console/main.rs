//! Tests of the console in one program: each that links all of it takes half a minute to build.

mod api;
mod fleet_rig;
mod health;
mod pages;
mod rig;
