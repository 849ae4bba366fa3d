//! Sessions of people who gave their password: a cookie that names one, and a second secret that changes must bring.

use std::collections::HashMap;
use std::time::Duration;

use kew_core::Entropy;
use kew_http::secret;
use parking_lot::Mutex;

use super::Role;

/// The cookie's name.
pub(crate) const COOKIE: &str = "kew_session";
/// How long a session lasts from its beginning.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 3_600);
/// How long it lasts without a request.
const IDLE: Duration = Duration::from_secs(2 * 3_600);
/// Sessions at once; the one that was used longest ago makes room.
const SESSIONS_MAX: usize = 1_024;
/// Sessions of one user at once.
const PER_USER_MAX: usize = 32;

/// One session.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) user: String,
    pub(crate) role: Role,
    /// What changes must bring in a header.
    pub(crate) csrf: String,
    begun: Duration,
    used: Duration,
}

impl Session {
    /// Whether a header holds the session's second secret.
    pub(crate) fn is_csrf(&self, brought: &str) -> bool {
        secret::is_same_text(&self.csrf, brought)
    }

    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.begun) >= LASTS || now.saturating_sub(self.used) >= IDLE
    }
}

/// All sessions, by the secret in their cookies. They live in memory: a restart ends them.
#[derive(Default)]
pub(crate) struct Sessions {
    /// Guards the sessions; held for look-ups only.
    all: Mutex<HashMap<String, Session>>,
}

impl Sessions {
    /// Begins a session of this name with this role; the text is the cookie's value.
    pub(crate) fn begin(
        &self,
        (name, role): (&str, Role),
        entropy: &dyn Entropy,
        now: Duration,
    ) -> (String, Session) {
        let cookie = format!("{:032x}{:032x}", entropy.wide_bits(), entropy.wide_bits());
        let csrf = format!("{:032x}", entropy.wide_bits());
        let session = Session { user: name.to_owned(), role, csrf, begun: now, used: now };
        let mut all = self.all.lock();
        all.retain(|_, session| !session.is_over(now));
        make_room(&mut all, PER_USER_MAX, |other| other.user == session.user);
        make_room(&mut all, SESSIONS_MAX, |_| true);
        all.insert(cookie.clone(), session.clone());
        (cookie, session)
    }

    /// The session of a cookie, which was used just now.
    pub(crate) fn used(&self, cookie: &str, now: Duration) -> Option<Session> {
        let mut all = self.all.lock();
        let session = all.get_mut(cookie)?;
        if session.is_over(now) {
            all.remove(cookie);
            return None;
        }
        session.used = now;
        Some(session.clone())
    }

    /// The session of a cookie, which a page asked for by itself: that is no use of it.
    pub(crate) fn seen(&self, cookie: &str, now: Duration) -> Option<Session> {
        self.all.lock().get(cookie).filter(|session| !session.is_over(now)).cloned()
    }

    /// Ends a session.
    pub(crate) fn end(&self, cookie: &str) {
        self.all.lock().remove(cookie);
    }
}

/// Ends the session used longest ago, of those that `counts`, until one more has room.
fn make_room(all: &mut HashMap<String, Session>, max: usize, counts: impl Fn(&Session) -> bool) {
    while all.values().filter(|session| counts(session)).count() >= max {
        let oldest = all.iter().filter(|(_, session)| counts(session)).min_by_key(|(_, one)| one.used);
        let Some(oldest) = oldest.map(|(cookie, _)| cookie.clone()) else { return };
        all.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kew_testing::CountingEntropy;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const ANNA: (&str, Role) = ("anna", Role::Operator);

    #[test]
    fn a_session_ends_when_it_is_old_or_unused_or_ended() {
        let (sessions, entropy) = (Sessions::default(), CountingEntropy::default());
        let (cookie, session) = sessions.begin(ANNA, &entropy, at(0));
        assert_eq!(cookie.len(), 64);
        assert!(session.is_csrf(&session.csrf) && !session.is_csrf("") && !session.is_csrf(&cookie));
        for hour in 1..12 {
            assert!(sessions.used(&cookie, at(hour * 3_600)).is_some(), "hour {hour}");
        }
        assert!(sessions.used(&cookie, at(12 * 3_600)).is_none());
        let (cookie, _) = sessions.begin(ANNA, &entropy, at(0));
        assert!(sessions.seen(&cookie, IDLE - at(1)).is_some());
        assert!(sessions.seen(&cookie, IDLE).is_none(), "to be seen is no use of it");
        assert!(sessions.used(&cookie, IDLE).is_none());
        let (cookie, _) = sessions.begin(ANNA, &entropy, at(0));
        sessions.end(&cookie);
        assert!(sessions.used(&cookie, at(1)).is_none());
    }

    #[test]
    fn sessions_are_bounded_for_each_user_and_for_all() {
        let (sessions, entropy) = (Sessions::default(), CountingEntropy::default());
        let (first, _) = sessions.begin(ANNA, &entropy, at(0));
        for second in 1..100 {
            sessions.begin(ANNA, &entropy, at(second));
        }
        assert_eq!(sessions.all.lock().len(), PER_USER_MAX);
        assert!(sessions.used(&first, at(100)).is_none(), "the one used longest ago made room");
    }
}
