//! Limits on the number of connections: in total, per address, and per network.
//!
//! If there is no room for another connection, one without a request under way is closed: among those that never sent a
//! request, the oldest, otherwise the one that has been idle longest. Therefore connections that send nothing keep
//! nobody out. If all are busy, the new one is closed.

use super::activity::ConnectionActivity;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    pub(super) all: usize,
    pub(super) of_address: usize,
    pub(super) of_network: usize,
}

const NO_LIMIT: ConnectionLimits = ConnectionLimits { all: usize::MAX, of_address: usize::MAX, of_network: usize::MAX };

/// The connections of a listener.
pub(super) struct Connections {
    most: Mutex<ConnectionLimits>,
    open: Mutex<OpenConnection>,
}

#[derive(Default)]
struct OpenConnection {
    all: HashMap<u64, Connection>,
    next: u64,
    order: ConnectionCount,
    of_address: HashMap<IpAddr, ConnectionCount>,
    of_network: HashMap<IpAddr, ConnectionCount>,
}

struct Connection {
    peer: IpAddr,
    activity: Arc<ConnectionActivity>,
}

/// The number of connections of some kind, and those that had sent no request when last checked, oldest first.
#[derive(Default)]
struct ConnectionCount {
    count: usize,
    silent: VecDeque<u64>,
}

/// A connection that counts until this is dropped.
pub(super) struct ConnectionGuard {
    connections: Arc<Connections>,
    number: u64,
}

impl Connections {
    pub(super) fn new(most: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { most: Mutex::new(most), open: Mutex::default() })
    }

    /// Changes the limits for later connections; open ones stay.
    pub(super) fn set_limits(&self, most: ConnectionLimits) {
        *self.most.lock().unwrap_or_else(PoisonError::into_inner) = most;
    }

    fn open(&self) -> MutexGuard<'_, OpenConnection> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection, and closes another if there is no room; `None` if all are busy. The second value tells
    /// whether another is closed.
    pub(super) fn enter(
        self: &Arc<Self>,
        peer: IpAddr,
        activity: &Arc<ConnectionActivity>,
    ) -> Option<(ConnectionGuard, bool)> {
        let most = *self.most.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut open, mut closes) = (self.open(), false);
        let network = network_of(peer);
        // A proxy on this machine carries everybody's connections.
        let ConnectionLimits { of_address, of_network, .. } = if peer.is_loopback() { NO_LIMIT } else { most };
        let of_network = if peer.is_ipv6() { of_network } else { usize::MAX };
        while open.of_address.get(&peer).map_or(0, |own| own.count) >= of_address {
            open.make_room(&|other| other == peer, OpenConnection::of_address(peer))?;
            closes = true;
        }
        while open.of_network.get(&network).map_or(0, |own| own.count) >= of_network {
            open.make_room(&|other| network_of(other) == network, OpenConnection::of_network(network))?;
            closes = true;
        }
        while open.all.len() >= most.all {
            open.make_room(&|_| true, OpenConnection::of_all)?;
            closes = true;
        }
        let number = open.add(peer, Arc::clone(activity));
        Some((ConnectionGuard { connections: Arc::clone(self), number }, closes))
    }

    /// The number of open connections.
    pub(super) fn count(&self) -> usize {
        self.open().all.len()
    }
}

impl OpenConnection {
    fn of_all(&mut self) -> Option<&mut ConnectionCount> {
        Some(&mut self.order)
    }

    fn of_address(peer: IpAddr) -> impl Fn(&mut Self) -> Option<&mut ConnectionCount> {
        move |open| open.of_address.get_mut(&peer)
    }

    fn of_network(network: IpAddr) -> impl Fn(&mut Self) -> Option<&mut ConnectionCount> {
        move |open| open.of_network.get_mut(&network)
    }

    fn add(&mut self, peer: IpAddr, activity: Arc<ConnectionActivity>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.all.insert(number, Connection { peer, activity });
        let all = &self.all;
        let orders = [
            &mut self.order,
            self.of_address.entry(peer).or_default(),
            self.of_network.entry(network_of(peer)).or_default(),
        ];
        for order in orders {
            order.count += 1;
            order.silent.push_back(number);
            // Closed connections, and those that have sent a request, are removed from time to time.
            if order.silent.len() > 2 * order.count + 16 {
                order.silent.retain(|number| all.get(number).is_some_and(Connection::is_silent));
            }
        }
        number
    }

    /// Closes one connection of a kind that has no request under way.
    fn make_room(
        &mut self,
        is_kind: &dyn Fn(IpAddr) -> bool,
        order: impl Fn(&mut Self) -> Option<&mut ConnectionCount>,
    ) -> Option<()> {
        let mut chosen = None;
        while let Some(number) = order(&mut *self).and_then(|order| order.silent.pop_front()) {
            if self.all.get(&number).is_some_and(Connection::is_silent) {
                chosen = Some(number);
                break;
            }
        }
        let chosen = chosen.or_else(|| {
            let own = self.all.iter().filter(|(_, connection)| is_kind(connection.peer));
            let idle = own.filter_map(|(number, connection)| Some((connection.activity.idle_since()?.1, *number)));
            idle.min().map(|(_, number)| number)
        })?;
        // It no longer counts, and its descriptor is free as soon as its task has been notified.
        self.remove(chosen)?.activity.close();
        Some(())
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.all.remove(&number)?;
        self.order.count -= 1;
        less(&mut self.of_address, connection.peer);
        less(&mut self.of_network, network_of(connection.peer));
        Some(connection)
    }
}

impl Connection {
    /// Whether it never sent a request.
    fn is_silent(&self) -> bool {
        self.activity.idle_since().is_some_and(|(has_asked, _)| !has_asked)
    }
}

fn less<K: Eq + Hash>(orders: &mut HashMap<K, ConnectionCount>, key: K) {
    if let Some(order) = orders.get_mut(&key) {
        order.count -= 1;
        if order.count == 0 {
            orders.remove(&key);
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let removed = self.connections.open().remove(self.number);
        drop(removed); // it may have been closed to make room
    }
}

/// The network of an address: the first 64 bits of an IPv6 address, since the owner of one address owns its whole
/// network.
pub(super) fn network_of(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: std::time::Duration = std::time::Duration::from_secs(3600);

    fn connections(all: usize, of_address: usize, of_network: usize) -> Arc<Connections> {
        Connections::new(ConnectionLimits { all, of_address, of_network })
    }

    fn v6(network: u16, host: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, host])
    }

    #[tokio::test]
    async fn those_that_are_silent_make_room_and_those_that_are_busy_do_not() {
        let connections = connections(3, 3, 3);
        let peer = IpAddr::from([10, 0, 0, 1]);
        let activities: Vec<_> = (0..3).map(|_| ConnectionActivity::new(IDLE)).collect();
        let entered: Vec<_> = activities.iter().map(|own| connections.enter(peer, own).unwrap()).collect();
        assert!(entered.iter().all(|(_, closes)| !closes) && connections.count() == 3);
        // The first sends a request, and is idle again; the second is busy; the third never sent one.
        drop(activities[0].begin());
        let busy = activities[1].begin();
        let fourth = ConnectionActivity::new(IDLE);
        let (kept, closes) = connections.enter(peer, &fourth).unwrap();
        assert!(closes && connections.count() == 3);
        tokio::time::timeout(std::time::Duration::from_secs(5), activities[2].is_over()).await.expect("the silent one");
        let also_busy = fourth.begin();
        let fifth = ConnectionActivity::new(IDLE);
        let (_fifth, closes) = connections.enter(peer, &fifth).unwrap();
        assert!(closes);
        tokio::time::timeout(std::time::Duration::from_secs(5), activities[0].is_over()).await.expect("the idle one");
        let busy_too = fifth.begin();
        assert!(connections.enter(peer, &ConnectionActivity::new(IDLE)).is_none(), "all are busy");
        drop((busy, also_busy, busy_too, kept, entered));
        assert_eq!(connections.count(), 1);
    }

    #[test]
    fn one_network_of_version_6_is_limited_as_a_whole() {
        let connections = connections(100, 2, 4);
        let busy = |peer| {
            let activity = ConnectionActivity::new(IDLE);
            let entered = connections.enter(peer, &activity)?;
            Some((activity.begin(), entered))
        };
        let mut kept: Vec<_> = (0..4).map(|host| busy(v6(1, host)).unwrap()).collect();
        assert!(busy(v6(1, 9)).is_none(), "the network has its share");
        kept.extend([busy(v6(2, 1)).unwrap(), busy(v6(2, 1)).unwrap()]);
        assert!(busy(v6(2, 1)).is_none(), "the address has its share");
        kept.push(busy(v6(2, 2)).unwrap());
        assert_eq!(connections.count(), 7);
        drop(kept);
        assert_eq!(connections.count(), 0);
        assert!(connections.open().of_address.is_empty() && connections.open().of_network.is_empty());
    }
}
