//! Shapes that are asked for again and again, each worked out once: the thousands of tables of a list have one shape.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use super::shape::{Shape, is_word_for_secrets};

/// A shape, and what has been worked out of it. There are no more than the schema has places, whatever a file holds.
pub(crate) struct Memo<'s> {
    shape: Shape<'s>,
    keys: OnceCell<Vec<&'s str>>,
    holds_secret: OnceCell<bool>,
    items: OnceCell<Below<'s>>,
    /// Below the keys of the schema.
    named: RefCell<HashMap<&'s str, Below<'s>>>,
    /// Below keys that the operator chose: those that are no word for secrets, and those that are.
    chosen: [OnceCell<Below<'s>>; 2],
}

type Below<'s> = Option<Rc<Memo<'s>>>;

impl<'s> Memo<'s> {
    pub(crate) fn new(shape: Shape<'s>) -> Self {
        Self {
            shape,
            keys: OnceCell::new(),
            holds_secret: OnceCell::new(),
            items: OnceCell::new(),
            named: RefCell::default(),
            chosen: [OnceCell::new(), OnceCell::new()],
        }
    }

    /// Cached form of [`Shape::keys`].
    pub(crate) fn keys(&self) -> &[&'s str] {
        self.keys.get_or_init(|| self.shape.keys())
    }

    /// Cached form of [`Shape::child`].
    pub(crate) fn child(&self, key: &str) -> Below<'s> {
        let made = || self.shape.child(key).map(|shape| Rc::new(Self::new(shape)));
        match self.keys().iter().find(|known| **known == key) {
            Some(known) => self.named.borrow_mut().entry(known).or_insert_with(made).clone(),
            None => self.chosen[usize::from(is_word_for_secrets(key))].get_or_init(made).clone(),
        }
    }

    /// Cached form of [`Shape::items`].
    pub(crate) fn items(&self) -> Below<'s> {
        self.items.get_or_init(|| self.shape.items().map(|shape| Rc::new(Self::new(shape)))).clone()
    }

    /// Returns what may precede a path in this value, from [`Shape::path_prefixes`]; empty if it is no path.
    pub(crate) fn path_prefixes(&self) -> Vec<&'s str> {
        self.shape.path_prefixes()
    }

    /// Cached form of [`Shape::holds_secret`].
    pub(crate) fn holds_secret(&self) -> bool {
        *self.holds_secret.get_or_init(|| self.shape.holds_secret())
    }
}
