//! Changes from one machine to another, takeovers, and batches that clients repeat after them.

use super::*;

impl World {
    /// A primary ships some segments, if it can.
    pub(super) fn ship(&mut self, at: usize, most: u64) {
        let machine = &mut self.machines[at];
        let Role::Primary { running: Some(running), .. } = &mut machine.role else { return };
        let now = self.now;
        for _ in 0..most {
            if running.shipper.is_whole() && self.dice.one_in(40) {
                running.shipper.restart();
            }
            let shipped = running.shipper.ship(now);
            if let Some((epoch, _)) = running.shipper.position() {
                let sign = format!("primaries/{}", machine.name);
                drop(machine.folder.put(&sign, epoch.as_bytes()));
            }
            if !shipped.unwrap_or(false) {
                break;
            }
            // Work continues while the whole database is copied.
            if self.dice.one_in(4) {
                running.core.checkpoint_all();
            }
        }
    }

    /// A follower applies some segments. Returns the name of the primary that the witness names.
    pub(super) fn apply(&mut self, at: usize, most: u64) -> Result<String, PipelineError> {
        let (dice, machine) = (&mut self.dice, &mut self.machines[at]);
        let Role::Follower(own) = &mut machine.role else { return Ok(String::new()) };
        assert!(!own.is_complete || most < u64::MAX, "the copy has its own changes");
        if own.is_complete {
            return Ok(String::new());
        }
        let named = machine.witness.ask()?.map(|record| record.primary).unwrap_or_default();
        if own.claim.as_ref() != Some(&named) && own.followed != named {
            own.claim = None; // a name is claimed from one primary only
            own.followed.clone_from(&named);
        }
        let own_followed = own.followed.clone();
        let sign = machine.folder.get(&format!("primaries/{own_followed}"))?;
        let sign = sign.map(|bytes| String::from_utf8(bytes).unwrap());
        // For a takeover, the last whole chain has everything that was published.
        let sign = match most {
            u64::MAX => {
                let own = own.copies.iter().rfind(|copy| copy.replica.applied.is_whole);
                let own = own.map(|copy| copy.replica.applied.epoch.clone());
                last_whole(&machine.folder, &own_followed)?.or(own)
            }
            _ => sign,
        };
        let Some(sign) = sign else { return Ok(named) };
        if own.copies.iter().all(|copy| copy.replica.applied.epoch != sign) {
            let (disk, remembered) = (TornDisk::default(), Applied::new(&sign));
            let replica = Replica::new(disk.clone(), remembered.clone());
            own.copies.push(Copy { disk, replica, remembered });
        }
        for copy in &mut own.copies {
            if copy.replica.applied.epoch != sign {
                continue;
            }
            for _ in 0..most {
                if copy.replica.apply_next(&machine.folder, i64::MAX)?.is_none() {
                    break;
                }
                if dice.one_in(2) {
                    copy.remembered = copy.replica.applied.clone();
                }
            }
        }
        let whole =
            own.copies.iter_mut().find(|copy| copy.replica.applied.epoch == sign && copy.replica.applied.is_whole);
        if let Some(whole) = whole {
            // Remembered before the copies of earlier chains are removed.
            whole.remembered = whole.replica.applied.clone();
            own.copies.retain(|copy| copy.replica.applied.epoch == sign);
        }
        Ok(named)
    }

    /// A follower tries to take over, whatever the primary does.
    pub(super) fn take_over(&mut self, at: usize) {
        let is_complete = matches!(&self.machines[at].role, Role::Follower(own) if own.is_complete);
        if !is_complete && self.apply(at, self.dice.0 % 8).is_err() {
            return;
        }
        self.names += 1;
        let fresh = format!("claim{}", self.names);
        let machine = &mut self.machines[at];
        let Role::Follower(own) = &mut machine.role else { return };
        let whole = own.copies.iter().rfind(|copy| copy.replica.applied.is_whole);
        let Some(applied) = whole.map(|copy| copy.replica.applied.clone()) else { return };
        let name = own.claim.get_or_insert(fresh).clone();
        own.copies.iter_mut().for_each(|copy| copy.remembered = copy.replica.applied.clone());
        if !own.is_complete && put_whole(&machine.folder, &name, &WholeChain::After(own.followed.clone())).is_err() {
            return;
        }
        match claim(&mut machine.witness, &applied.folder, &own.followed, &name) {
            Ok(ClaimOutcome::Won) => {}
            Ok(ClaimOutcome::Lost) => {
                // Another machine is the primary: its chain is followed from the beginning.
                if std::mem::take(&mut own.is_complete) {
                    own.copies.clear();
                }
                return own.claim = None;
            }
            Err(_) => return, // perhaps it has arrived
        }
        let is_complete = matches!(&self.machines[at].role, Role::Follower(own) if own.is_complete);
        if !is_complete && !self.end_chain(at, &name) {
            return;
        }
        let Role::Follower(own) = &mut self.machines[at].role else { unreachable!() };
        own.is_complete = true;
        let followed = own.followed.clone();
        let whole = own.copies.iter().rfind(|copy| copy.replica.applied.is_whole);
        let disk = whole.expect("whole copies are kept until another one is whole").disk.clone();
        let epoch = whole.expect("whole copies are kept until another one is whole").replica.applied.epoch.clone();
        if put_whole(&self.machines[at].folder, &name, &WholeChain::Chain(epoch)).is_err() {
            return;
        }
        match Store::on(disk.clone()).and_then(|store| store.set_primary(&name)) {
            Ok(()) => {}
            Err(error) if is_of_the_disk(&error.to_string()) => return, // it is interrupted, and begins again
            Err(error) => panic!("{error}"),
        }
        let machine = &mut self.machines[at];
        (machine.name, machine.role) = (name, Role::Primary { disk, running: None });
        self.takeovers += 1;
        // The way to the witness may be lost meanwhile.
        self.start(at);
        if self.dice.one_in(3) {
            self.tick(at);
        }
        self.unrepeated = Some((at, followed));
        if self.is_failing != Some(at) {
            self.repeat(at);
        }
    }

    /// Applies everything of the machine before, and ends its chain; returns whether it has ended.
    fn end_chain(&mut self, at: usize, name: &str) -> bool {
        loop {
            if self.apply(at, u64::MAX).is_err() {
                return false;
            }
            // Between the two, others may ship more.
            let other = self.any();
            if other != at && self.is_failing.is_none() {
                self.ship(other, 2);
            }
            let Role::Follower(own) = &self.machines[at].role else { unreachable!() };
            let whole = own.copies.iter().rfind(|copy| copy.replica.applied.is_whole);
            let applied = &whole.expect("whole copies are kept until another one is whole").replica.applied;
            match end_chain(&self.machines[at].folder, applied, name) {
                Ok(true) => return true,
                Ok(false) => {}
                Err(_) => return false,
            }
        }
    }

    /// Clients send everything again after a takeover, in the order in which it was acknowledged: first the batches of
    /// the machine before.
    pub(super) fn repeat(&mut self, at: usize) {
        let Some((_, followed)) = self.unrepeated.clone().filter(|(by, _)| *by == at) else { return };
        self.correct(at);
        match &self.machines[at].role {
            Role::Primary { running: Some(running), .. } if running.core.health().read_only.is_none() => {}
            _ => return, // clients try again later
        }
        self.unrepeated = None;
        let accepted: Vec<Sent> = std::mem::take(&mut self.accepted).into_values().flatten().collect();
        // A primary that was replaced accepts and ships for a while.
        let (own, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.others).into_iter().partition(|(name, _)| *name == followed);
        self.post_all(at, accepted.into_iter().chain(own.into_iter().map(|(_, sent)| sent)).collect());
        // Batches that the machine before has not counted would make its published steps other ones.
        self.recover(at);
        self.post_all(at, others.into_iter().map(|(_, sent)| sent).collect());
    }

    pub(super) fn post_all(&mut self, at: usize, batches: Vec<Sent>) {
        let mut is_missing = BTreeSet::new();
        for sent in batches {
            let is_known = self.post(at, &sent);
            // What a follower has is what the primary had at some time, never a choice of it.
            assert!(is_known != Some(true) || !is_missing.contains(&sent.stream), "{} overtook another", sent.id);
            if is_known != Some(true) {
                is_missing.insert(sent.stream);
            }
            match is_known {
                Some(_) => self.accepted.entry(sent.stream).or_default().push(sent),
                None => self.lost += 1,
            }
        }
    }

    /// The operator closes streams again that the witness has seen further.
    pub(super) fn recover(&mut self, at: usize) {
        let Role::Primary { running: Some(running), .. } = &mut self.machines[at].role else { return };
        for which in STREAMS {
            let name = DECLARATIONS[which].0;
            let StreamState::Recovering(seen) = running.core.find(name).unwrap().progress().state else { continue };
            assert!(!self.holds, "publications wait for shipping, so that no follower lacks one");
            self.recoveries += 1;
            running.core.close_through(name, seen).unwrap();
        }
    }
}
