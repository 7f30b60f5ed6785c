"""What the user of ``bench live`` says: questions, requests, and a few remarks that want no deep thought."""

QUESTIONS = (
    "Can you tell me something about the sea?",
    "What should I cook for dinner tonight?",
    "How do I keep my plants alive?",
    "I think it will rain tomorrow.",
    "What is the largest planet in the solar system?",
    "Tell me how to clean a wooden table.",
    "Why is the sky red in the evening?",
    "How does a bicycle stay up?",
    "That sounds like a good idea.",
    "Give me one tip for sleeping well.",
    "What is a good book for a long train ride?",
    "How long does it take to learn the piano?",
    "Please name a bird that sings at night.",
    "We had soup yesterday.",
    "Where was coffee first grown?",
    "What can I do with a garden in winter?",
    "How do I make a good cup of tea?",
    "My sister lives in Italy.",
    "Why do cats like boxes?",
    "Can you explain how a clock works?",
)
