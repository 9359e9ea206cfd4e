//! Each kind of user input as a message for the model.

use std::path::Path;

use codicil_prompts::{MAX_IMAGE_BYTES, reads_files, user_message};
use codicil_protocol::UserInput;
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::show::full;

fn shown(input: Value, cwd: &Path) -> String {
    let input: Vec<UserInput> = serde_json::from_value(input).unwrap();
    full(&user_message(&input, cwd).into_iter().collect::<Vec<_>>()).replace(&*cwd.to_string_lossy(), "CWD")
}

#[test]
fn texts_and_images_become_parts_of_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path();
    std::fs::write(cwd.join("pic.png"), b"GIF89a").unwrap();
    let input = json!([
        {"type": "text", "text": "look @here", "text_elements": [{"byteRange": {"start": 5, "end": 10}}]},
        {"type": "image", "url": "https://example.com/a.png"},
        {"type": "localImage", "path": cwd.join("pic.png")},
        {"type": "skill", "name": "mine", "path": "/skills/mine/SKILL.md"},
        {"type": "mention", "name": "App", "path": "app://demo"},
        {"type": "hologram", "light": true},
        {"type": "localImage", "path": "pic.png"},
        {"type": "text", "text": ""},
    ]);
    assert_snapshot!(shown(input, cwd), @r"
    [user]
    look @here
    <image>
      (image https://example.com/a.png)
    </image>
    <image name=[Image #2]>
      (image data:image/gif;base64,R0lGODlh)
    </image>
    <image name=[Image #3]>
      (image data:image/gif;base64,R0lGODlh)
    </image>
    ");
}

#[test]
fn an_image_that_cannot_be_shown_becomes_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path();
    std::fs::write(cwd.join("words.png"), "words").unwrap();
    let huge = std::fs::File::create(cwd.join("huge.gif")).unwrap();
    std::io::Write::write_all(&mut &huge, b"GIF89a").unwrap();
    huge.set_len(MAX_IMAGE_BYTES + 1).unwrap();
    let image = |name: &str| json!({"type": "localImage", "path": cwd.join(name)});
    let input = json!([{"type": "text", "text": "see"}, image("none.png"), image("words.png"), image("huge.gif"), image(".")]);
    assert_snapshot!(shown(input, cwd), @r"
    [user]
    see
    [Image #1 cannot be shown: CWD/none.png: No such file or directory (os error 2)]
    [Image #2 cannot be shown: CWD/words.png: not a PNG, JPEG, GIF or WebP image]
    [Image #3 cannot be shown: CWD/huge.gif: larger than 20 MB]
    [Image #4 cannot be shown: CWD/.: not a file]
    ");
}

#[test]
fn the_images_of_a_message_have_a_limit_together() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path();
    let big = std::fs::File::create(cwd.join("big.gif")).unwrap();
    std::io::Write::write_all(&mut &big, b"GIF89a").unwrap();
    big.set_len(MAX_IMAGE_BYTES - 1).unwrap();
    let image = json!({"type": "localImage", "path": "big.gif"});
    let input: Vec<UserInput> = serde_json::from_value(json!([image, image, image])).unwrap();
    let text = codicil_prompts::message_text(&user_message(&input, cwd).unwrap());
    assert_eq!(
        text,
        "<image name=[Image #1]></image><image name=[Image #2]></image>\
         [Image #3 cannot be shown: big.gif: the images of this message are too large together]"
    );
}

#[test]
fn a_single_skill_yields_no_message() {
    let input: Vec<UserInput> =
        serde_json::from_value(json!([{"type": "skill", "name": "x", "path": "/x"}])).unwrap();
    assert_eq!(user_message(&input, Path::new("/")), None);
    assert_eq!(user_message(&[], Path::new("/")), None);
}

#[test]
fn only_local_images_need_the_disk() {
    let check = |input: Value, expected| {
        let input: Vec<UserInput> = serde_json::from_value(json!([input])).unwrap();
        assert_eq!(reads_files(&input), expected);
    };
    check(json!({"type": "localImage", "path": "x"}), true);
    check(json!({"type": "image", "url": "x"}), false);
    check(json!({"type": "text", "text": "x"}), false);
}
