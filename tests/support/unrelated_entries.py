# ruff: noqa: E501 - one entry a line
"""Two hundred entries about as many things, such as an assistant notes about its user.

No two are about the same, so none is a double, and hardly any should be in a group. The first
hundred are Chinese, the others English. In each line: the summary, five tags, the category.
"""

from typing import NamedTuple


class Unrelated(NamedTuple):
    summary: str
    tags: list[str]
    category: str


_CHINESE = """
用户每年清明前都会托人从杭州带两斤明前龙井 | 龙井 绿茶 明前 杭州 品茗 | preference
线上 Redis 内存涨到 90%，用户决定给会话键加过期时间 | Redis 内存 过期策略 缓存 运维 | knowledge
女儿高考 612 分，第一志愿想报南京大学历史系 | 高考 志愿填报 女儿 南京大学 录取 | conversation
用户持有两百股贵州茅台，打算跌破 1400 再加仓 | 茅台 持仓 加仓 白酒股 A股 | other
父亲查出二型糖尿病，空腹血糖 8.3，要控制主食 | 糖尿病 血糖 父亲 主食 控糖 | conversation
用户每天清晨在公园跟师傅练陈氏太极拳 | 太极拳 陈氏 晨练 师傅 公园 | preference
家里鱼缸的两条锦鲤得了白点病，水温调到了三十度 | 鱼缸 锦鲤 白点病 水温 养鱼 | knowledge
国庆假期计划坐火车进藏，在拉萨住四晚适应高原 | 西藏 拉萨 高原反应 国庆 青藏铁路 | conversation
用户正在办二手房贷款，银行要求补一份收入证明 | 房贷 二手房 收入证明 银行 首付 | document
用户临《兰亭序》三年了，最近改用兼毫小楷笔 | 书法 兰亭序 毛笔 临帖 小楷 | preference
周末常和邻居打四川麻将，只打五块钱的 | 麻将 血战到底 邻居 牌局 娱乐 | preference
用户吃任何菜都不放香菜，闻到味道就难受 | 香菜 忌口 口味 点菜 饮食偏好 | preference
公司年会定在一月十二日，用户负责主持和抽奖 | 年会 主持人 抽奖 节目单 晚会 | conversation
驾校教练说科目三要多练直线行驶和靠边停车 | 驾照 科目三 驾校 教练 路考 | conversation
用户月底离职，交接清单还差供应商通讯录 | 离职 交接清单 供应商 通讯录 月底 | document
换城市工作期间社保断缴了两个月，想知道能否补缴 | 社保 断缴 补缴 参保 异地 | knowledge
奶奶留下一件手工盘扣的旗袍，要找裁缝改腰身 | 旗袍 盘扣 裁缝 奶奶 改衣 | other
用户学古筝考六级，曲目选了《高山流水》 | 古筝 考级 高山流水 指法 民乐 | conversation
表弟二战考研，报的是法律硕士非法学 | 考研 法硕 二战 表弟 备考 | conversation
客厅地板选了白蜡木三层实木，铺装工期五天 | 地板 装修 实木 客厅 工期 | document
上周带孩子去大棚摘草莓，一斤四十元 | 草莓 采摘 大棚 亲子 周末游 | conversation
公众号每周三晚上八点推送，标题不超过二十个字 | 公众号 推文 标题 排版 运营 | preference
测试环境的 Kubernetes 要从 1.27 升到 1.30 | Kubernetes 集群升级 容器 节点 编排 | knowledge
三维打印机的喷头又堵了，换成 0.6 毫米的铜嘴 | 三维打印 喷头 耗材 堵头 切片 | knowledge
用户下周二拔智齿，之前三天不能喝酒 | 智齿 拔牙 口腔科 麻药 下颌 | conversation
被流浪狗抓伤后打了五针狂犬疫苗，还差最后一针 | 狂犬疫苗 流浪狗 接种 抓伤 免疫 | conversation
用户颈椎不好，只睡八厘米高的乳胶枕 | 乳胶枕 颈椎 睡眠 寝具 高度 | preference
小区三号楼电梯又停在七层，维保公司说要换曳引轮 | 电梯 维保 故障 曳引轮 困人 | conversation
用户喜欢推理本，不玩恐怖题材的剧本杀 | 剧本杀 推理 组局 桌游 恐怖 | preference
岳父是京剧票友，最爱唱《空城计》里的老生 | 京剧 票友 空城计 老生 岳父 | other
婚宴订在福满楼，十八桌，每桌三千八 | 婚宴 酒席 福满楼 桌数 喜糖 | document
用户想把户口从鞍山迁到苏州，需要准迁证 | 户口 迁移 准迁证 苏州 派出所 | knowledge
八个月的宝宝开始吃辅食，南瓜泥过敏起疹子 | 辅食 宝宝 南瓜泥 湿疹 喂养 | conversation
顺丰丢了一个包裹，赔付上限是运费的七倍 | 快递 丢件 赔付 包裹 保价 | conversation
小程序支付回调偶尔收到两次，要按订单号做幂等 | 小程序 支付回调 幂等 订单号 接口 | knowledge
用户收藏了一支 1985 年的英雄 100 钢笔 | 钢笔 英雄牌 墨水 收藏 文具 | other
每周四晚和同事打羽毛球，场地在奥体二号馆 | 羽毛球 球拍 场馆 双打 同事 | preference
用户报名了滑翔伞初级执照，训练基地在林州 | 滑翔伞 林州 飞行执照 风速 极限运动 | conversation
周五回长沙的高铁票改签到晚上七点那一班 | 高铁 改签 长沙 车次 候补 | conversation
出差的酒店发票必须写公司全称和税号才能报销 | 发票 报销 税号 酒店 差旅 | document
叔叔痛风发作，医生不让再吃海鲜和动物内脏 | 痛风 尿酸 海鲜 叔叔 嘌呤 | knowledge
用户和朋友合伙开兰州拉面馆，每人出资十五万 | 面馆 合伙 创业 出资 店面 | conversation
用户为了和婆婆聊天，正在自学粤语的九声六调 | 粤语 声调 婆婆 自学 拼音 | preference
拍人像主要用 85 毫米定焦镜头，光圈开到 1.8 | 镜头 人像摄影 定焦 光圈 相机 | preference
养了六年的巴西龟今年冬天没有冬眠 | 巴西龟 冬眠 晒背 龟粮 爬宠 | other
老中医开了七副汤药，要先煎附子一小时 | 中药 煎药 附子 老中医 药方 | document
老家的十二亩水稻九月底请收割机来收 | 水稻 收割机 老家 亩产 农活 | conversation
用户每天坐地铁十号线上班，单程五十分钟 | 地铁 通勤 十号线 早高峰 换乘 | other
母亲节给妈妈买了一条真丝方巾，她嫌颜色太艳 | 母亲节 丝巾 礼物 真丝 配色 | conversation
卧室空气净化器的滤芯用了十四个月，该换了 | 空气净化器 滤芯 PM2.5 卧室 更换 | knowledge
同事在工地摔伤，单位要在三十天内申报工伤 | 工伤 认定 申报 工地 赔偿 | knowledge
用户直播卖牛肉干，一场能出六百单 | 直播带货 牛肉干 主播 销量 选品 | conversation
销售月报用 Excel 透视表汇总，按大区和品类分组 | Excel 透视表 月报 大区 汇总 | document
物业费拖欠了半年，业委会准备换物业公司 | 物业费 业委会 小区 拖欠 投票 | conversation
泡菜坛子起了白花，外婆说加一勺高度白酒 | 泡菜 坛子 白花 外婆 发酵 | knowledge
用户还原三阶魔方的最好成绩是二十一秒 | 魔方 三阶 还原 公式 计时 | other
给未婚妻买的三金一共四十六克，金价 780 | 黄金 三金 首饰 克重 订婚 | document
五一夜爬华山，计划在东峰看日出 | 华山 夜爬 日出 东峰 登山杖 | conversation
初中同学毕业二十年聚会，班长在统计人数 | 同学聚会 班长 初中 二十年 统计 | conversation
厨房发现蟑螂，用了胶饵，两周后再检查一次 | 蟑螂 胶饵 厨房 灭虫 卫生 | knowledge
用户打篮球手腕骨折，石膏还要固定四周 | 骨折 石膏 手腕 骨科 复查 | conversation
用户每期只买十块钱双色球，号码从来不换 | 彩票 双色球 号码 开奖 投注 | preference
妻子怀二胎二十二周，下次产检做大排畸 | 二胎 产检 大排畸 孕周 妻子 | conversation
硕士论文查重率 18%，学校要求低于 15% | 论文 查重率 硕士 降重 答辩 | document
图像标注外包给了郑州的团队，每框三分钱 | 数据标注 外包 标注框 郑州 单价 | document
机房精密空调报高湿告警，厂家周六来检修 | 机房 精密空调 湿度 告警 检修 | conversation
用户在社区教孩子剪窗花，偏爱生肖图案 | 剪纸 窗花 生肖 社区课堂 手工 | preference
自制酸奶用纯牛奶加菌粉，八小时出锅 | 酸奶 菌粉 纯牛奶 乳酸菌 自制 | knowledge
行车记录仪的存储卡坏了，追尾那天没有录像 | 行车记录仪 存储卡 追尾 录像 事故 | conversation
今年年夜饭轮到大舅家做，用户负责八宝饭 | 年夜饭 八宝饭 大舅 除夕 团圆 | conversation
用户只喝云南保山的浅烘咖啡豆，手冲水温 92 度 | 咖啡豆 手冲 浅烘 保山 研磨 | preference
指纹门锁没电了，可以用充电宝接底部应急口 | 指纹锁 应急供电 智能家居 充电宝 开门 | knowledge
用户想找一位会做北方面食的住家保姆 | 保姆 住家 面食 家政 面试 | conversation
舅妈的老花镜度数加到了二百五十度 | 老花镜 度数 验光 舅妈 镜片 | other
元宵灯会上猜中七个灯谜，奖品是一盏兔子灯 | 元宵 灯谜 兔子灯 灯会 猜谜 | conversation
用户在旧货市场淘到一张甲骨文拓片，请人鉴定 | 甲骨文 拓片 鉴定 旧货市场 殷墟 | other
因为台风红色预警，儿子的幼儿园停课一天 | 台风 红色预警 停课 幼儿园 暴雨 | conversation
英语口语课的外教来自新西兰，每次二十五分钟 | 英语口语 外教 新西兰 网课 发音 | conversation
季度盘点发现三号仓少了四十箱洗衣液 | 盘点 仓库 洗衣液 库存差异 季度 | document
客户要求封装改成 QFN-32，样片六周交付 | 芯片封装 QFN 样片 客户 交付 | document
那件发明专利的第五年年费八月前必须缴纳 | 专利 年费 缴费 发明 知识产权局 | document
姥姥只过农历生日，是腊月初八 | 农历 生日 姥姥 腊八 长寿面 | other
用户在拍卖行拍下一只民国粉彩瓶，落槌价三万二 | 拍卖 粉彩 瓷瓶 落槌价 民国 | other
用户用十六小时轻断食减肥，两个月瘦了九斤 | 减肥 轻断食 体重 晚餐 代谢 | preference
丈夫打鼾严重，医生建议租一台呼吸机试睡 | 打鼾 呼吸机 睡眠呼吸暂停 丈夫 监测 | conversation
家长群里在争论要不要统一订黄色校服 | 家长群 校服 班主任 订购 争论 | conversation
出口德国的硅胶餐具要按新税则补缴关税 | 关税 出口 硅胶餐具 报关 德国 | document
用户画条漫，主角是一只会修表的乌鸦 | 条漫 乌鸦 分镜 修表 连载 | preference
六岁的儿子刚学轮滑，护膝要买小号 | 轮滑 护膝 儿子 平衡 小号 | conversation
泰国金枕榴莲一箱四个，开出来肉太生 | 榴莲 金枕 泰国 水果店 催熟 | conversation
用户准备做全飞秒近视手术，角膜厚度 530 微米 | 近视手术 全飞秒 角膜 眼科 术前检查 | conversation
共享单车平台倒闭，199 元押金一直退不出来 | 共享单车 押金 退款 平台 投诉 | conversation
用户皮肤敏感，只能用物理防晒霜 | 防晒霜 敏感肌 物理防晒 护肤 紫外线 | preference
单位组织去敬老院包饺子，用户教老人用视频通话 | 敬老院 志愿服务 饺子 视频通话 老人 | conversation
螺纹钢期货空单被强平，亏了保证金的六成 | 期货 螺纹钢 强平 保证金 做空 | other
日志采集丢数据，原因是磁盘缓冲区只有 64 MB | 日志采集 Filebeat 缓冲区 磁盘 丢数据 | knowledge
用户的垂耳兔开始换毛，每天要喂提摩西草 | 兔子 垂耳兔 换毛 提摩西草 喂草 | other
邻居在网上造谣，用户发了律师函要求道歉 | 律师函 名誉权 造谣 道歉 侵权 | document
春季观鸟记录到三只黑脸琵鹭，在闽江口湿地 | 观鸟 黑脸琵鹭 湿地 闽江口 望远镜 | other
羽绒服不能干洗，用户用中性洗涤剂手洗后平铺 | 羽绒服 手洗 洗涤剂 晾晒 蓬松 | knowledge
"""

_ENGLISH = """
The user feeds a rye sourdough starter every other evening | sourdough rye starter baking fermentation | preference
The nginx certificate for the shop expires in March and renewal fails at the DNS check | nginx certificate TLS renewal DNS | knowledge
The former landlord keeps 600 euros of the deposit for alleged scratches | landlord deposit dispute scratches refund | conversation
Physiotherapy for the left knee is twice a week until the swelling is gone | knee physiotherapy swelling exercises rehab | conversation
Her daughter takes violin lessons and practises scales before breakfast | violin lessons scales daughter practice | other
They adopted a retired greyhound called Biscuit from the shelter | greyhound adoption shelter Biscuit leash | conversation
The user puts 300 a month into a world index fund and never sells | index-fund ETF saving investing monthly | preference
The honeymoon is two weeks in Lisbon and Porto, hotels are not booked yet | honeymoon Lisbon Porto hotels itinerary | conversation
The doctoral thesis is on coral bleaching; chapter four is with the supervisor | thesis coral bleaching doctorate supervisor | document
His nephew carries an adrenaline pen because of a peanut allergy | allergy peanut adrenaline nephew emergency | knowledge
Kafka consumers lag by two hours whenever the nightly export runs | Kafka consumer lag export throughput | knowledge
The kitchen tap drips; the plumber says the ceramic cartridge is worn | tap plumber leak cartridge kitchen | conversation
The user trains for a half marathon and wants to finish under two hours | half-marathon training pace race endurance | preference
Dad's new hearing aid whistles when he puts on his hat | hearing-aid whistle audiologist father hat | conversation
The chess club meets in the back room of the pub; the user plays the French Defence | chess opening club pub tournament | preference
An objection to the trademark filing for Pebblewise arrived from a toy maker | trademark objection filing Pebblewise lawyer | document
An electrician will install an 11 kW wallbox for the electric car | wallbox electric-car charging electrician garage | conversation
Slides for the board meeting need the churn figures on page three | slides board churn presentation page | document
The storm tore tiles off the roof and insurance wants photographs | roof storm tiles insurance photographs | conversation
The user learns Welsh with evening classes in Cardiff | Welsh language classes Cardiff vocabulary | preference
Two beehives swarmed in May, so a third box was set up | beehive swarm honey queen apiary | other
The office printer only works again after its driver is rolled back | printer driver office rollback paper | knowledge
At the cousin's wedding the two uncles must not sit at one table | wedding seating cousin uncles reception | conversation
Her migraines start with zigzag lines and are set off by red wine | migraine aura trigger neurologist headache | knowledge
The collection has nine typewriters, the oldest an Underwood from 1912 | typewriter Underwood collection ribbon antique | other
As a freelancer the user must file the tax return by the end of July | tax-return freelancer deadline receipts accountant | document
The workstation gets a second graphics card with 24 GB for fine-tuning | GPU workstation fine-tuning VRAM hardware | conversation
They paddled a folding kayak down the Dordogne for five days | kayak Dordogne paddling canoe river | conversation
The user was called for jury duty and wants to postpone it | jury court summons postponement citizen | document
With the eight-inch telescope Saturn's rings were visible last night | telescope Saturn rings astronomy night | other
The user has been vegan for six years and misses only feta | vegan diet feta plant-based tofu | preference
Her sister's divorce will be final once the custody agreement is signed | divorce custody sister agreement mediator | conversation
The passport runs out in August and the next free appointment is in June | passport appointment expiry photo consulate | document
The first home-made camembert smelled of ammonia after three weeks | camembert cheese rind ripening mould | knowledge
Every podcast episode is cut to 35 minutes and levelled to minus 16 LUFS | podcast loudness episode editing microphone | preference
The school bus now stops at the bakery instead of the church | school bus stop route timetable | conversation
The user does the Guardian cryptic crossword in ink on Saturdays | crossword cryptic puzzle clues Saturday | preference
The lawn mower does not start after winter, probably stale petrol | lawn-mower petrol carburettor garden spring | knowledge
The checkout experiment with one-page payment raised conversion by 3 percent | experiment checkout conversion variant payment | document
The user gives blood every ten weeks, group 0 negative | blood donation donor group red-cross | other
His juniper bonsai is wired in autumn and stays outdoors in frost | bonsai juniper wiring pot pruning | preference
The neighbour drums after ten at night, and the council was written to | neighbour drums noise complaint council | conversation
The credit card includes airport lounges but not for guests | airport lounge credit-card guests travel-perk | knowledge
A height-adjustable desk was ordered because of back pain in the home office | desk standing back-pain home-office ergonomics | conversation
The library wants 14 dollars for an atlas that was returned in time | library fine atlas overdue librarian | conversation
The old pension from the shipyard can be moved into the new scheme until October | pension transfer shipyard scheme retirement | document
A swallow tattoo on the forearm is planned with an artist in Leeds | tattoo swallow forearm artist ink | preference
The glaze crackled because the kiln cooled too fast | kiln glaze pottery ceramics cooling | knowledge
In the salary talk the user will ask for 8 percent and a training budget | salary raise negotiation budget manager | conversation
The ringing in the right ear has been there since the concert | tinnitus ear concert ringing hearing | conversation
Smoke detectors are tested on the first of each month | smoke-detector alarm battery test fire-safety | preference
The parser is being rewritten in Rust; the Python one stays until spring | Rust parser rewrite Python migration | document
The Postgres replica stopped because the replication slot filled the disk | Postgres replica slot replication disk | knowledge
The gym refuses to cancel the membership without a registered letter | gym membership cancellation letter contract | conversation
Two tickets for Tosca on the balcony, as a birthday surprise for grandma | opera Tosca tickets birthday grandma | conversation
The basement dehumidifier draws four litres a day and keeps it at 55 percent | dehumidifier basement humidity damp litres | knowledge
The user rides an Icelandic horse on Sunday mornings | horse riding saddle stable Icelandic | preference
The hip-hop crew rehearses a six-minute piece for the street festival | hip-hop dance choreography crew festival | conversation
The model railway in the attic is HO scale with a viaduct of balsa wood | model-railway HO-scale viaduct attic balsa | other
To vote from abroad the user must register thirty days before election day | voting abroad election register ballot | knowledge
The user sorts tins at the food bank on alternate Wednesdays | food-bank volunteer tins charity Wednesday | other
To see the solar eclipse they rent a camper in northern Spain | eclipse sun camper Spain corona | conversation
The Barolo from 2013 should not be opened before 2028 | Barolo wine cellar vintage bottle | preference
The user lies awake from three to five and has given up screens in bed | insomnia sleep screens bedtime awake | conversation
The boy reads with a ruler and gets extra time in exams for dyslexia | dyslexia reading exams ruler extra-time | knowledge
The bicycle was stolen at the station; its frame number is with the police | bicycle theft station police frame-number | document
Three colleagues share a car to the plant and settle fuel on Fridays | carpool colleagues fuel commute plant | conversation
The newsletter goes to 4,200 readers and half of them open it | newsletter readers open-rate mailing subscribers | document
A new intern starts on the first and needs a badge and a laptop | intern onboarding badge laptop HR | conversation
Legal wants every AGPL library out of the product before the release | licence AGPL open-source compliance legal | document
The drone weighs 249 grams and still needs an operator number | drone operator registration flight airspace | knowledge
A log-cabin quilt from old shirts is half finished | quilt patchwork shirts sewing fabric | other
The fishing permit for the upper Isar ends in September, trout only | fishing permit trout Isar angler | document
The user plays backgammon for pennies with a barber in Izmir | backgammon dice barber Izmir board-game | other
Monthly contact lenses dry out, so glasses are worn in the office | contact-lenses glasses eyes optician dryness | preference
Before the ski tour everybody took an avalanche course with beacons | avalanche ski-tour beacon snow course | conversation
The user will be godmother at the christening of little Edda | godmother christening Edda church baptism | conversation
The screenplay about a lighthouse keeper has reached its second draft | screenplay lighthouse draft dialogue film | document
The hall gets green botanical wallpaper, eleven rolls with one spare | wallpaper hall rolls botanical paste | document
For Kenya malaria tablets are to be taken two days before departure | malaria Kenya tablets mosquito tropics | knowledge
The keynote in Vienna is forty minutes and must not be recorded | keynote Vienna conference speaker recording | conversation
The fermented habanero sauce turned out too sweet with mango | habanero sauce mango chilli bottle-label | other
Groceries may cost 120 a week; last month it was 160 | groceries budget weekly spending supermarket | other
Moths ate the cashmere coat, and cedar did not keep them away | moths cashmere cedar wardrobe larvae | conversation
The grey parrot imitates the microwave and plucks its feathers | parrot feathers cage imitation vet | other
The mobile plan has 20 GB and no roaming in Switzerland | mobile-plan roaming gigabytes Switzerland SIM | knowledge
The town allows felling the rotten ash only outside the nesting season | ash felling permit tree nesting | document
The scholarship asks for two references and an essay on water policy | scholarship essay references application university | document
The accordion's bass reeds stick, and the only repairer is in Trieste | accordion reeds repair bass Trieste | conversation
The user is fire warden of the fourth floor and wears the yellow vest in drills | fire-warden drill evacuation vest floor | other
Nine unit tests fail at random because they share one clock | flaky tests clock unit-test CI | knowledge
Robots in the warehouse stop where the floor reflects sunlight | robots warehouse sensor sunlight navigation | knowledge
The choir sings Fauré's Requiem in November and lacks tenors | choir Requiem tenor rehearsal Fauré | conversation
The lease on the great-grandparents' grave must be renewed for twenty years | grave cemetery lease ancestors headstone | document
Olive oil soap has to cure for six weeks before it is sold at the market | soap olive-oil lye curing market-stall | knowledge
The user referees rugby for under-fourteens and lost the whistle | rugby referee whistle youth scrum | conversation
A map of Bohemia from 1680 hangs framed over the piano | map Bohemia engraving frame antiquarian | other
The user writes memoirs for other people and is paid per chapter | ghostwriter memoir chapter fee manuscript | conversation
The family tree goes back to a miller in Thuringia in 1640 | genealogy ancestors parish-records miller Thuringia | other
Being left-handed, the user needs scissors and a can opener made for it | left-handed scissors can-opener tools grip | preference
"""


def _read(lines: str) -> list[Unrelated]:
    entries = (line.split(" | ") for line in lines.strip().splitlines())
    return [Unrelated(summary, tags.split(), category) for summary, tags, category in entries]


CHINESE, ENGLISH = _read(_CHINESE), _read(_ENGLISH)
UNRELATED_ENTRIES = CHINESE + ENGLISH
