//! Numbered places that are used again; a place's generation tells an old number from a new one.

/// A growing list of places.
pub struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Puts a value into a free place; returns index and generation.
    pub fn insert(&mut self, value: T) -> (u32, u32) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            u32::try_from(self.places.len() - 1).expect("bounded by the limits of the sessions")
        });
        let place = &mut self.places[index as usize];
        place.1 = Some(value);
        (index, place.0)
    }

    /// The value at a place, of whatever generation.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.1.as_mut()
    }

    /// The value at a place, if it is still of this generation.
    pub fn same_mut(&mut self, index: u32, generation: u32) -> Option<&mut T> {
        let place = self.places.get_mut(index as usize)?;
        if place.0 == generation { place.1.as_mut() } else { None }
    }

    /// Takes a value out; its place may be used again.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let place = self.places.get_mut(index as usize)?;
        let value = place.1.take()?;
        place.0 = place.0.wrapping_add(1);
        self.free.push(index);
        Some(value)
    }

    /// Values with their index.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, u32, &mut T)> {
        let places = self.places.iter_mut().enumerate();
        places.filter_map(|(i, (generation, value))| Some((i as u32, *generation, value.as_mut()?)))
    }

    /// How many places are taken.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
