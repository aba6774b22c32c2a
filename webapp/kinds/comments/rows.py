"""How the comments of a report are read: what each shows, by what they are filtered and sorted."""
from webapp.kinds import Rows

ROWS = Rows(
    noun={"en": "comments", "ja": "コメント"},
    columns={
        "text": {"en": "Comment", "ja": "コメント"},
        "label": {"en": "Mood", "ja": "気持ちの傾向"},
        "score": {"en": "Score", "ja": "スコア"},
        "emotion": {"en": "Emotion", "ja": "感情"},
        "language": {"en": "Language", "ja": "言語"},
        "likes": {"en": "Likes", "ja": "高評価"},
        "published_at": {"en": "Written", "ja": "投稿日時"},
        "is_reply": {"en": "Type", "ja": "種別"},
        "asks": {"en": "Asks for something", "ja": "質問・要望"},
        "times": {"en": "Moments named", "ja": "挙げている場面"},
    },
    text="text",
    filters={
        "label": {"positive": {"en": "Positive", "ja": "ポジティブ"}, "neutral": {"en": "Neutral", "ja": "中立"},
                  "negative": {"en": "Negative", "ja": "ネガティブ"}, "": {"en": "Not scored", "ja": "採点なし"}},
        "emotion": {"amusement": {"en": "Amusement", "ja": "楽しさ・笑い"}, "anger": {"en": "Anger", "ja": "怒り"},
                    "disgust": {"en": "Disgust", "ja": "嫌悪"}, "fear": {"en": "Fear", "ja": "不安・恐れ"},
                    "joy": {"en": "Joy", "ja": "喜び"}, "love": {"en": "Love", "ja": "好意・愛情"},
                    "sadness": {"en": "Sadness", "ja": "悲しみ"}, "surprise": {"en": "Surprise", "ja": "驚き"},
                    "neutral": {"en": "None in particular", "ja": "特になし"}},
        "language": {"en": {"en": "English", "ja": "英語"}, "ja": {"en": "Japanese", "ja": "日本語"},
                     "ko": {"en": "Korean", "ja": "韓国語"}, "zh": {"en": "Chinese", "ja": "中国語"},
                     "other": {"en": "Other languages", "ja": "その他の言語"},
                     "none": {"en": "No words (emoji and the like)", "ja": "言葉なし（絵文字など）"}},
        "asks": {"question": {"en": "A question", "ja": "質問"}, "request": {"en": "A request", "ja": "要望"},
                 "": {"en": "Neither", "ja": "どちらでもない"}},
        "is_reply": {"false": {"en": "Comment", "ja": "コメント"}, "true": {"en": "Reply", "ja": "返信"}},
    },
    query_names={"is_reply": "reply"},
    orders={
        "likes": ({"en": "Most liked first", "ja": "高評価の多い順"}, "likes", True),
        "newest": ({"en": "Newest first", "ja": "新しい順"}, "published_at", True),
        "oldest": ({"en": "Oldest first", "ja": "古い順"}, "published_at", False),
        "most-positive": ({"en": "Most positive first", "ja": "ポジティブな順"}, "score", True),
        "most-negative": ({"en": "Most negative first", "ja": "ネガティブな順"}, "score", False),
    },
)
