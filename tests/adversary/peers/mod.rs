//! Peers of the overlay that were let in and lie: with every kind of message. What honest nodes publish to each other
//! arrives all the same, nothing is invented in their names, and their memory stays where it was.

mod floods;
mod frames;
mod ground;
mod heads;
mod liar;
mod objects;
mod publications;
mod silent;
