use super::*;

fn open(url: &str) -> Result<Subscription> {
    Subscription::open(Address::parse(url)?, &SourceOptions::default())
}

#[test]
fn urls() {
    let source = open("mqtts://host/rooms/+/visits/#?qos=1").expect("valid");
    assert_eq!(source.shown(), "mqtts://host:8883/rooms/+/visits/#");
    assert_eq!(source.identity(), "mqtt:rooms/+/visits/#");
    let id = source.settings.client_id();
    assert!(id.len() == 23 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_ne!(id, open("mqtts://host/rooms/+/visits").expect("valid").settings.client_id());
    let named = open("mqtt://host/a?client-id=b").expect("valid");
    assert_eq!((named.identity().as_str(), named.settings.client_id().as_str()), ("mqtt:a?client-id=b", "b"));
    for (url, why) in [
        ("mqtt://host/", "topic filter"),
        ("mqtt://host/a/#/b", "topic filter"),
        ("mqtt://host/a+/b", "topic filter"),
        ("mqtt://host/a?qos=3", "`3`"),
        ("mqtt://host/a?session-days=0", "session-days"),
        ("mqtt://host/a?clean=1", "`clean`"),
        ("mqtt://h1,h2/a", "one host"),
    ] {
        let error = open(url).err().expect(url).to_string();
        assert!(error.contains(why), "{url}: {error}");
    }
}
